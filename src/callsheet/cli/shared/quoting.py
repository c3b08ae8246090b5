"""The work of `callsheet quote`: asks for the price. Files are uploaded only if the price depends on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from callsheet.cli.shared.console import out, print_json, print_table
from callsheet.cli.shared.operations_client import CommandClient
from callsheet.cli.shared.sending import check_input, find_effect, uploaded
from callsheet.cli.shared.values import read_values
from callsheet.toolbox.disk_space import readable
from callsheet.wire.money.quotes import Quote, QuoteLimit
from callsheet.wire.plurals import counted

BYTES = "_bytes"


async def quote_effect(
    client: CommandClient, slug: str, file: Path | None, values: Sequence[str], as_json: bool
) -> None:
    async with client:
        effect = await find_effect(client, slug)
        given = read_values(effect, values)
        if file is not None:
            check_input(effect, file)
        quote, not_sent = await _without_upload(client, slug, file, given)
        if quote.cost is None and not_sent:
            sent = {key: await uploaded(client, each) for key, each in not_sent.items()}
            main = sent.pop("input_file_id", None)
            quote, not_sent = await client.quote(slug, file=main, values={**given, **sent}), {}
    if as_json:
        print_json({**quote.model_dump(mode="json"), "not_checked": [str(path) for path in not_sent.values()]})
        return
    cost = "is not known yet" if quote.cost is None else f"costs {counted(quote.cost, 'token')}"
    out.print(f"The job {cost}. You have {quote.balance}.")
    print_table(("", ""), _rows(quote))
    if not_sent:
        names = ", ".join(path.name for path in not_sent.values())
        out.print(f"{names}: not uploaded, because the price does not depend on it. So its content was not checked.")


async def _without_upload(
    client: CommandClient, slug: str, file: Path | None, given: Mapping[str, Any]
) -> tuple[Quote, dict[str, Path]]:
    """The quote without the files, and the files by their fields. The quote does not miss what was left out."""
    files = {key: value for key, value in given.items() if isinstance(value, Path)}
    quote = await client.quote(slug, values={key: value for key, value in given.items() if key not in files})
    fields = {f"input_payload.{key}" for key in files} | ({"input_file_id"} if file is not None else set())
    missing = [each for each in quote.missing if each.field not in fields]
    if file is not None:
        files["input_file_id"] = file
    return quote.model_copy(update={"missing": missing, "can_submit": not missing}), files


def _rows(quote: Quote) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    if quote.wait is not None:
        rows.append(("wait", quote.wait.message))
        if quote.wait.run_seconds is not None:
            rows.append(("run time", f"about {counted(quote.wait.run_seconds, 'second')}"))
    rows += [_limit(each) for each in quote.limits]
    rows += [
        ("missing", each.message if each.field is None else f"{each.field}: {each.message}") for each in quote.missing
    ]
    return rows


def _limit(limit: QuoteLimit) -> tuple[str, str]:
    is_size = limit.code.endswith(BYTES)
    shown = readable if is_size else str
    used = "" if limit.used is None else f"{shown(limit.used)} of "
    return limit.code.removesuffix(BYTES).replace("_", " "), f"{used}{shown(limit.limit)}"
