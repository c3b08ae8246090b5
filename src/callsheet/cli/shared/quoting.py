"""The work of `callsheet quote`: uploads the files, asks for the price, and shows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from callsheet.cli.shared.console import out, print_json, print_table
from callsheet.cli.shared.operations_client import CommandClient
from callsheet.cli.shared.sending import check_input, find_effect, uploaded
from callsheet.cli.shared.values import read_values
from callsheet.wire.money.quotes import Quote
from callsheet.wire.plurals import counted


async def quote_effect(
    client: CommandClient, slug: str, file: Path | None, values: Sequence[str], as_json: bool
) -> None:
    async with client:
        effect = await find_effect(client, slug)
        given = read_values(effect, values)
        if file is not None:
            check_input(effect, file)
        for key, value in given.items():
            if isinstance(value, Path):
                given[key] = await uploaded(client, value)
        quote = await client.quote(slug, file=None if file is None else await uploaded(client, file), values=given)
    if as_json:
        print_json(quote)
        return
    cost = "is not known yet" if quote.cost is None else f"costs {counted(quote.cost, 'token')}"
    out.print(f"The job {cost}. You have {quote.balance}.")
    print_table(("", ""), _rows(quote))


def _rows(quote: Quote) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    if quote.wait is not None:
        rows.append(("wait", quote.wait.message))
        if quote.wait.run_seconds is not None:
            rows.append(("run time", f"about {counted(quote.wait.run_seconds, 'second')}"))
    for limit in quote.limits:
        used = "" if limit.used is None else f"{limit.used} of "
        rows.append((limit.code.replace("_", " "), f"{used}{limit.limit}"))
    rows += [
        ("missing", each.message if each.field is None else f"{each.field}: {each.message}") for each in quote.missing
    ]
    return rows
