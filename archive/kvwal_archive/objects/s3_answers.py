"""Check of S3's answers: what a proxy or a sign-in page says in place of the bucket, with the status 200, is no answer.

Without the check the page of a proxy, which may be XML, is a listing without objects: an archive that seems to be empty.
"""

from __future__ import annotations

from typing import Any

NOT_OF_A_BUCKET = "NotOfABucket"
"""The error code that stands for such an answer, as if S3 had given it."""
_ROOTS = {
    "ListObjects": b"ListBucketResult",
    "ListObjectsV2": b"ListBucketResult",
    "CreateMultipartUpload": b"InitiateMultipartUploadResult",
    "CompleteMultipartUpload": b"CompleteMultipartUploadResult",
}
"""The root element of an answer that is XML."""
_HAVE_ETAG = ("PutObject", "UploadPart", "HeadObject")


def checked_session(**options: Any) -> Any:
    """A session of aiobotocore, with its own `options`, whose clients take an answer that is none of a bucket as an error: the
    request may be made again.

    The bytes of an object are not looked at: readers check them.
    """
    from aiobotocore.session import AioSession

    session = AioSession(**options)
    session.register("before-parse.s3", _refuse_page)
    return session


def _refuse_page(operation_model: Any, response_dict: dict[str, Any], **_: object) -> None:
    """Handler of botocore, which has one of its own for errors of S3 that come with the status 200."""
    if response_dict["status_code"] == 200 and not _is_of_a_bucket(operation_model.name, response_dict):
        response_dict |= {"status_code": 500, "body": b"<Error><Code>%s</Code></Error>" % NOT_OF_A_BUCKET.encode()}


def _is_of_a_bucket(operation: str, response: dict[str, Any]) -> bool:
    if (root := _ROOTS.get(operation)) is not None:
        return root in response["body"]
    return operation not in _HAVE_ETAG or "etag" in {name.lower() for name in response["headers"]}
