"""Why a node answers a test of the client otherwise than a plain member: every difference has one of these names."""

from __future__ import annotations

import re
from typing import NamedTuple


class Reason(NamedTuple):
    """A difference that is meant. `said` is found in what the test failed with, `test` in the test's name."""

    name: str
    text: str
    said: str = ""
    test: str = ""


REASONS = [
    Reason(
        "SQL",
        "Refused: [decision 0023](decisions/0023-no-sql-from-clients.md).",
        said=r"takes no SQL from clients",
        test=r"sql_test.py::SqlServiceTest::test_provided_suggestions",
    ),
    Reason(
        "no log",
        "Refused unless the node's file names the service in `volatile`: [What is served](cluster-semantics.md#what-is-served).",
        said=r"have no log in kvwal",
    ),
    Reason(
        "not served",
        "Refused: [What is served](cluster-semantics.md#what-is-served).",
        said=r"A node of kvwal (does not serve|takes no classes)|is the members' own|runs kvwal's own tasks only",
    ),
    Reason("too large", "A value above 5 MiB is refused.", said=r"TooLarge"),
    Reason(
        "idle time",
        "An entry of a map with a log takes no idle time: reads do not reach the log.",
        said=r"takes no idle time",
    ),
    Reason(
        "no class",
        "The test sends an object of a Java class of its own: an entry processor, a comparator. A node loads none.",
        said=r"com\.hazelcast\.client\.test|No DataSerializerFactory registered|Could not find PortableFactory|ClassNotFound",
    ),
    Reason(
        "no XML",
        "The test configures its members in XML: a map store, a lite member, ports. A node has a file of its own.",
        test=r"MapStoreTest|LiteMember|AdvancedNetworkConfigTest",
    ),
    Reason(
        "owner waits",
        "The test drops the backups' answers to the client. The owner of a key waits for them itself:"
        " [decision 0015](decisions/0015-owner-waits-for-backups.md).",
        test=r"test_lost_backups_on_smart_mode_with_fail_on_indeterminate_operation_state",
    ),
    Reason(
        "unknown outcome",
        "The test ends the owner of a key and writes the key at once. A write on its way to a member that has ended may be in its"
        " log: the client hears an error. [What a client hears](cluster-semantics.md#what-a-client-hears) says more.",
        test=r"listener_test.py::ListenerRemoveMemberTest::test_remove_member",
    ),
    Reason(
        "own executor",
        "The test expects no other objects than its own. A node lists `kvwal.members` too, the executor between the members.",
        test=r"DistributedObjectsTest::test_get_distributed_objects",
    ),
]


ENTERPRISE = re.compile(r"Enterprise license|Enterprise edition|licensed feature|Unrecognized client message received")
"""In what a plain member fails with when a test asks for a feature of Hazelcast Enterprise. Of some features, as vector
collections, it does not know the messages.
"""


def named(test: str, said: str) -> str | None:
    """The name of the first reason that fits, None if none does."""
    for reason in REASONS:
        if (reason.said and re.search(reason.said, said)) or (reason.test and re.search(reason.test, test)):
            return reason.name
    return None
