"""The error types of jobs, each with the sentence that users read.

A worker, an engine or a provider may put anything into the text of an error: passwords, hosts, paths. Therefore users
read only these sentences. Operators read the reported text, with secrets masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_AGAIN = "Try again, or ask an operator if it happens again."
UNKNOWN = f"Processing failed. {_AGAIN}"

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        # Waiting, leases and deadlines
        "queue_deadline": "No worker took the job in time.",
        "deadline": "The job did not finish in time.",
        "expired": "The job did not finish in time.",
        "lease_expired": "No worker could finish the job.",
        "lease_lost": "No worker could finish the job.",
        "attempts_exhausted": "The job was interrupted too often.",
        "callback_expired": "The provider did not call back in time.",
        "dispatch_ended": UNKNOWN,
        "result_lost": "The job finished, but its result was lost. You were not charged.",
        "canceled": "The job was canceled.",
        # Engines
        "out_of_memory": "The engine ran out of memory. Try a smaller input or smaller values.",
        "engine_disk_full": f"The disk of the engine is full. {_AGAIN}",
        "execution_error": "A step of the workflow failed. Try another input or other values, or ask an operator.",
        "invalid_workflow": "The engine refused the workflow. Ask an operator to correct it.",
        "engine_stuck": "The engine stopped working during the job. Try again, with another input if it happens again.",
        "engine_unreachable": f"The engine could not be reached. {_AGAIN}",
        "engine_busy": f"The engine was busy. {_AGAIN}",
        "engine_too_old": "The engine is too old for this job. Ask an operator.",
        "no_engine": "The worker has no engine for this job. Ask an operator.",
        "run_limit": "The run took longer than it may take. Try a smaller input or smaller values.",
        "run_lost": f"The engine was restarted during the run. {_AGAIN}",
        "run_removed": f"The run was removed from the engine before it started. {_AGAIN}",
        "run_stalled": f"The engine made no more progress. {_AGAIN}",
        "interrupted": f"The run was interrupted at the engine. {_AGAIN}",
        "cloud_key_refused": "The engine's service refused the request. Ask an operator.",
        "cloud_no_credits": "The engine's service refused the request. Ask an operator.",
        "cloud_inactive": "The engine's service refused the request. Ask an operator.",
        # Inputs
        "input_unreadable": "An input of the job could not be read. Upload the file again, then try again.",
        "input_too_large": "An input file is larger than the engine accepts. Use a smaller file.",
        "upload_refused": "The engine did not accept an input file. Try another file, or ask an operator.",
        "undeliverable": "The files of the job cannot be sent to a worker. Upload them again, then submit a new job.",
        # Results
        "no_output": "The run ended without a result. Try another input or other values, or ask an operator.",
        "empty_output": f"The run made an empty file. {_AGAIN}",
        "too_many_outputs": "The run made more files than a job may deliver. Try smaller values, or ask an operator.",
        "foreign_output": f"The engine returned a file of another run. {_AGAIN}",
        "output_lost": f"The result did not arrive from the engine. {_AGAIN}",
        "output_unreadable": f"The result could not be read. {_AGAIN}",
        "output_unusable": f"The result of the provider could not be used. {_AGAIN}",
        "output_too_large": "The result is larger than the limit. Ask for a smaller result.",
        "output_not_media": "The provider returned a file that is not an image, a video or a sound. Ask an operator.",
        "output_refused": "The result was not accepted. Ask an operator.",
        "graph_in_result": "The result could not be delivered. Ask an operator.",
        "result_refused": "The result was not accepted. Ask an operator.",
        "upload_failed": f"The result could not be stored. {_AGAIN}",
        # Workers and actors
        "worker_error": UNKNOWN,
        "wrong_worker": f"The job was given to a worker that cannot run it. {_AGAIN}",
        "no_actor": "The worker does not have the actor of this task. Ask an operator.",
        "actor_error": f"The task's actor failed. {_AGAIN}",
        "invalid_payload": "The actor refused the payload. Compare it with the documentation of the actor.",
        "invalid_request": "The worker refused the payload. Compare it with the documentation of the action.",
        "no_callback": "The provider cannot call back to this installation. Ask an operator.",
        # Providers
        "provider_unavailable": "The provider did not respond. Try again later.",
        "provider_refused_key": "The provider refused the request. Ask an operator.",
        "provider_refused": "The provider refused the request. Change the prompt or the values, or ask an operator.",
        "provider_failed": "The provider could not make the output. Change the prompt or the values, or try again.",
        "provider_canceled": "The job was canceled at the provider.",
        "provider_moved": "The provider cannot be used. Ask an operator.",
        "provider_not_found": f"The provider does not know the job any more. {_AGAIN}",
        "provider_not_set_up": "The provider is not configured. Ask an operator.",
        "provider_answer": "The provider returned a response that cannot be used. Ask an operator.",
        # Pages of products
        "page_unreachable": "The page could not be reached. Check its URL, then try again.",
        "page_refused": "The site refused to return the page. Try again later, or enter the product by hand.",
        "page_too_large": "The page is too large. Use another page, or enter the product by hand.",
        "page_unreadable": "The page could not be read. Use another page, or enter the product by hand.",
        "not_a_page": "The URL does not lead to a web page. Use the URL of the product's page.",
        "no_product": "The page has no product that could be read. Use the product's own page, or enter the product by "
        "hand.",
        "robots_refused": "The site does not allow programs to read the page. Enter the product by hand.",
        "address_refused": "The URL leads to a private network. Use a public URL.",
        "parser_missing": "This installation cannot read pages. Ask an operator.",
    }
)


def sentence_of(type: str) -> str:
    """The sentence that the user of a job reads about an error of this type."""
    return SENTENCES.get(type, UNKNOWN)


def job_error(
    type: str, reported: str, details: Mapping[str, Any] | None = None, traceback: str | None = None
) -> dict[str, Any]:
    """The error as a job stores it. `reported` (without secrets), `details` and `traceback` are for operators."""
    return {
        "type": type,
        "message": sentence_of(type),
        "reported": reported,
        "details": details,
        "traceback": traceback,
    }


def reported_message(error: Mapping[str, Any]) -> str:
    """The sentence for operators."""
    return str(error.get("reported") or error.get("message") or "")
