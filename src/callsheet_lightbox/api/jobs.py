"""The view of queue and history in `/api/jobs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callsheet_lightbox.prompt_queue import Item, PromptQueue

STATUSES = ("pending", "in_progress", "completed", "failed")
# Types of outputs that a browser can show.
MEDIA_KEYS = ("images", "video", "audio", "gifs", "latents", "text")


def all_jobs(queue: PromptQueue) -> list[dict[str, Any]]:
    jobs = [_waiting(item, "in_progress") for item in queue.running()]
    jobs += [_waiting(item, "pending") for item in queue.pending()]
    return jobs + [_ended(prompt_id, entry) for prompt_id, entry in queue.history().items()]


def job(queue: PromptQueue, prompt_id: str) -> dict[str, Any] | None:
    entry = queue.history_of(prompt_id)
    if entry is not None:
        _, _, prompt, extra_data, _ = entry["prompt"]
        return _ended(prompt_id, entry) | {
            "outputs": entry["outputs"],
            "execution_status": entry["status"],
            "workflow": {"prompt": prompt, "extra_data": extra_data},
        }
    for status, items in (("in_progress", queue.running()), ("pending", queue.pending())):
        for item in items:
            if item.prompt_id == prompt_id:
                return _waiting(item, status)
    return None


def _waiting(item: Item, status: str) -> dict[str, Any]:
    return {
        "id": item.prompt_id,
        "status": status,
        "priority": item.number,
        "create_time": item.extra_data.get("create_time"),
        "outputs_count": 0,
        **_workflow_id(item.extra_data),
    }


def _workflow_id(extra_data: Mapping[str, Any]) -> dict[str, Any]:
    # This raises on an extra_pnginfo that is not an object, and the whole list returns 500, as in ComfyUI.
    workflow = extra_data.get("extra_pnginfo", {}).get("workflow", {})
    return {"workflow_id": workflow["id"]} if isinstance(workflow, dict) and "id" in workflow else {}


def _ended(prompt_id: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    number, _, _, extra_data, _ = entry["prompt"]
    messages = entry["status"]["messages"]
    times = {event: data.get("timestamp") for event, data in messages}
    failure = next((data for event, data in messages if event == "execution_error"), None)
    ends = (times.get(f"execution_{end}") for end in ("success", "error", "interrupted"))
    count, preview = _outputs(entry["outputs"])
    found: dict[str, Any] = {
        "id": prompt_id,
        "status": "completed" if entry["status"]["status_str"] == "success" else "failed",
        "priority": number,
        "create_time": extra_data.get("create_time"),
        "execution_start_time": times.get("execution_start"),
        "execution_end_time": next((end for end in ends if end is not None), None),
        "execution_error": failure,
        "outputs_count": count,
        "preview_output": preview,
        **_workflow_id(extra_data),
    }
    return {key: value for key, value in found.items() if value is not None}


def _outputs(outputs: Mapping[str, Any]) -> tuple[int, dict[str, Any] | None]:
    count, preview = 0, None
    for node_id, shown in outputs.items():
        for key, items in shown.items():
            for item in items if key in MEDIA_KEYS else ():
                count += 1
                if preview is None and isinstance(item, dict):
                    preview = {**item, "nodeId": node_id, "mediaType": key}
    return count, preview


def page(jobs: list[dict[str, Any]], query: Mapping[str, str]) -> tuple[int, dict[str, Any]]:
    """Status and body for a list of jobs, filtered and cut by the query."""
    wanted = [each.strip() for each in query.get("status", "").lower().split(",") if each.strip()]
    unknown = [each for each in wanted if each not in (*STATUSES, "cancelled")]
    if unknown:
        return 400, {"error": f"Invalid status value(s): {', '.join(unknown)}. Valid values: {', '.join(STATUSES)}"}
    sort_by, order = query.get("sort_by", "created_at"), query.get("sort_order", "desc")
    if sort_by not in ("created_at", "execution_duration"):
        return 400, {"error": "sort_by must be one of: created_at, execution_duration"}
    if order not in ("asc", "desc"):
        return 400, {"error": "sort_order must be 'asc' or 'desc'"}
    limit, offset = query.get("limit"), query.get("offset", "0")
    if not all(each.lstrip("-").isdecimal() for each in (limit or "1", offset)) or int(limit or 1) <= 0:
        return 400, {"error": "limit must be a positive integer"}
    return 200, _cut(_sorted(jobs, wanted, query.get("workflow_id"), sort_by, order), limit, max(0, int(offset)))


def _sorted(
    jobs: list[dict[str, Any]], wanted: list[str], workflow: str | None, sort_by: str, order: str
) -> list[dict[str, Any]]:
    kept = [each for each in jobs if not wanted or each["status"] in wanted]
    kept = [each for each in kept if workflow is None or each.get("workflow_id") == workflow]

    def key(each: Mapping[str, Any]) -> float:
        if sort_by == "created_at":
            return float(each["create_time"] or 0)
        return float((each.get("execution_end_time") or 0) - (each.get("execution_start_time") or 0))

    return sorted(kept, key=key, reverse=order == "desc")


def _cut(jobs: list[dict[str, Any]], limit: str | None, offset: int) -> dict[str, Any]:
    chosen = jobs[offset : offset + int(limit)] if limit else jobs[offset:]
    more = offset + len(chosen) < len(jobs)
    pagination = {"offset": offset, "limit": int(limit) if limit else None, "total": len(jobs), "has_more": more}
    return {"jobs": chosen, "pagination": pagination}
