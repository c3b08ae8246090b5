"""`callsheet queue` and `callsheet alerts`: the waiting jobs with the reasons, and the alerts. HTTP only."""

from __future__ import annotations

import typer

from callsheet.cli.jobs.submit import URL
from callsheet.cli.shared.console import out, print_json, print_table, seconds_text
from callsheet.wire.operate.operations import Alert

AS_JSON = typer.Option(False, "--json", help="Print JSON.")
STYLES = {"critical": "red", "warning": "yellow"}


def queue(
    everything: bool = typer.Option(False, "--all", help="Also show workflows that currently have no jobs."),
    url: str | None = URL,
    as_json: bool = AS_JSON,
) -> None:
    """Show what waits in the queue by workflow, for how long, and why the oldest job waits. For operators."""
    from callsheet.cli.shared.operations_client import with_operations

    metrics = with_operations(url, lambda client: client.metrics())
    shown = [row for row in metrics.workflows if everything or row.queued or row.delayed or row.leased or row.waiting]
    if as_json:
        print_json(shown)
        return
    if not shown:
        out.print("The queue is empty.")
        return
    rows = [
        (
            row.workflow,
            count_text(row.queued),
            seconds_text(row.oldest_wait_seconds),
            row.delayed,
            row.leased,
            row.waiting,
            f"{row.busy_slots}/{row.live_slots}",
            row.why_waiting.message if row.why_waiting is not None else None,
        )
        for row in shown
    ]
    print_table(
        ("workflow", "ready", "oldest", "retry", "running", "provider", "slots", "why the oldest job waits"), rows
    )


def count_text(count: int) -> str:
    """Counts are exact up to 1000."""
    return f"{count}+" if count >= 1000 else str(count)


SEND_TEST = typer.Option(
    False, "--send-test", help="Send a test message to the configured webhook and e-mail addresses."
)


def alerts(url: str | None = URL, send_test: bool = SEND_TEST, as_json: bool = AS_JSON) -> None:
    """List what needs an operator, with what to do about it. Exits 1 if an alert is critical."""
    from callsheet.cli.shared.operations_client import with_operations

    if send_test:
        _print_recipients(with_operations(url, lambda client: client.send_test_alert()).recipients, as_json)
        return
    found = with_operations(url, lambda client: client.alerts()).alerts
    if as_json:
        print_json(found)
    elif not found:
        out.print("No alerts.")
    else:
        for alert in found:
            _print_alert(alert)
    if any(alert.severity == "critical" for alert in found):
        raise typer.Exit(1)


def _print_recipients(recipients: list[str], as_json: bool) -> None:
    if as_json:
        print_json(recipients)
    elif recipients:
        out.print(
            f"A test message is on its way to {', '.join(recipients)}. If it does not arrive, run: callsheet alerts"
        )
    else:
        out.print("No recipient is configured. Set CALLSHEET_ALERTS__WEBHOOK_URL or CALLSHEET_ALERTS__EMAILS.")


def _print_alert(alert: Alert) -> None:
    out.print(f"{alert.severity:<8}", style=STYLES[alert.severity], end=" ")
    out.print(f"{alert.code} ", style="bold", end="")
    out.print(f"{alert.subject}: {alert.message}")
    out.print(f"{'':<8} → {alert.action}")
