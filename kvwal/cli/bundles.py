"""Option bundles: arguments and options that several commands share, declared once as the fields of a frozen dataclass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def unbundle(command: Callable[..., None]) -> Callable[..., None]:
    """The command in the form that typer takes.

    A parameter whose annotation is a dataclass is replaced, in its place, by the fields of the dataclass. The command still
    receives the dataclass whole. Help text and name of each option come from the annotations of the fields.
    """
    hints = get_type_hints(command, include_extras=True)
    names = signature(command).parameters
    bundles = {name: hints[name] for name in names if is_dataclass(hints[name])}
    parameters: list[Parameter] = []
    for name, parameter in names.items():
        if name in bundles:
            parameters += _parameters_of(bundles[name])
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY))

    def run(**values: Any) -> None:
        for name, bundle in bundles.items():
            values[name] = bundle(**{field.name: values.pop(field.name) for field in fields(bundle)})
        command(**values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameters_of(bundle: Any) -> Iterator[Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    for field in fields(bundle):
        default = Parameter.empty if field.default is MISSING else field.default
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[field.name])
