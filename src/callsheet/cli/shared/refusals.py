"""What commands print about errors of the client."""

from __future__ import annotations

from callsheet.wire.errors import FieldProblem, NotAuthenticated, Refusal


def sentence_of(error: BaseException) -> str:
    """The sentence for a user of the command line. Only a refusal over HTTP has a status."""
    if not isinstance(error, Refusal) or error.status is None:
        return str(error)
    if error.code == NotAuthenticated.code:
        return (
            "The API key is missing, wrong or revoked. Log in with another one: callsheet login. "
            "To create one on the control plane, run: callsheet keys create --user EMAIL"
        )
    if error.errors:
        # The names are as they were written on the command line.
        return " ".join(str(FieldProblem(_as_written(each.field), each.reason)) for each in error.errors)
    return str(error)


def _as_written(field: str) -> str:
    return field.removeprefix("input_payload.").removeprefix("payload.")
