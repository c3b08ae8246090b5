"""The meaning of each kind of alert, and what to do. The API, the messages and docs/alerts.md use the same texts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from callsheet.wire.operate.operations import AlertCode


class Guide(NamedTuple):
    meaning: str
    steps: str
    # A page of docs/ with more details, relative to docs/.
    page: str = ""


GUIDE: Mapping[AlertCode, Guide] = MappingProxyType(
    {
        "no_live_worker": Guide(
            "Jobs of a workflow, stage and provider wait. No approved worker that could run them has sent anything for "
            "90 seconds or holds a valid lease. While more workers are wanted than there are, it is only a warning.",
            "Start workers, or let a fleet that has some serve the workflow: under Operate, Workflows, the workflow, "
            "tab Settings, or with `callsheet fleets assign`. Check that effect and fleet have the same stage. If the "
            "message names what the workers lack, install it and restart their engines, or change what the workflow "
            "requires.",
            "how-to/run-a-fleet.md",
        ),
        "long_wait": Guide(
            "The oldest job waits longer than `CALLSHEET_JOBS__QUEUE_WAIT_ALERT_SECONDS`.",
            "Add workers, or look for jobs that run too long: under Operate, Jobs, with the status active. Cancel "
            "them, or drain their worker if it hangs.",
            "how-to/scale-workers.md",
        ),
        "many_failures": Guide(
            "Of `CALLSHEET_JOBS__ERROR_JOBS_ALERT` or more jobs of a workflow that finished in the last hour, a larger "
            "share than `CALLSHEET_JOBS__ERROR_SHARE_ALERT` failed.",
            "Open the failed jobs under Operate, Jobs: the view Errors groups them by cause, and the page of a job has "
            "the traceback. If one worker causes the failures, drain it under Operate, Workers. If the graph causes "
            "them, deactivate the workflow on its page or with `callsheet workflows deactivate`. When the cause is "
            "fixed, retry the jobs: select them under Operate, Jobs.",
        ),
        "failing_provider": Guide(
            "Of `CALLSHEET_JOBS__ERROR_JOBS_ALERT` or more jobs of a provider that finished in the last hour, a larger "
            "share than `CALLSHEET_JOBS__ERROR_SHARE_ALERT` failed. All providers are counted: those that "
            "respond at once, those that call back, and `self_hosted`, which means engines and actors without a "
            "provider.",
            "Open the failed jobs under Operate, Jobs: the view Errors groups them by cause. If the provider rejects "
            "the credentials or the input, correct its settings or the workflow. If it is broken, set its limit to 0 "
            "under Operate, Providers: its jobs then wait. When the cause is fixed, raise the limit and retry the "
            "failed jobs.",
        ),
        "kills_engines": Guide(
            "A job of the workflow ran more than once in the last 24 hours, and each time its engine hung "
            "(`engine_stuck`), or was restarted or gone during the run (`run_lost`, `engine_unreachable`). An engine "
            "that an operator restarts once is not counted.",
            "Run the graph by hand at ComfyUI and read its output. The cause is often a custom node that returns "
            "numpy or tensor values in its `ui`, or that ends its process or thread. Until it is fixed, deactivate "
            "the workflow on its page or with `callsheet workflows deactivate`. The alert ends a day after the last "
            "such run.",
            "how-to/connect-comfyui.md",
        ),
        "failing_runs": Guide(
            "Of `CALLSHEET_JOBS__ERROR_JOBS_ALERT` or more jobs of pipeline runs in a pool, a larger share than "
            "`CALLSHEET_PIPELINES__ERROR_SHARE_ALERT` failed within `CALLSHEET_PIPELINES__ERROR_WINDOW_SECONDS`.",
            "Read the errors of those jobs under Operate, Jobs, with the status failed: the cause may be one workflow "
            "or one run. A branch is stopped after three failures, and a run whose branches fail stops with "
            "its reason, so no budget is spent on it. Resume such runs when the cause is fixed.",
            "how-to/run-a-pipeline.md",
        ),
        "broken_runs": Guide(
            "An unexpected error stops the scheduler from advancing a run; the run's reason is `internal_error`. It is "
            "tried again every `CALLSHEET_PIPELINES__BLOCKED_SECONDS`. Other runs go on.",
            "Look for `pipeline.run_stumbled` in the log of a control plane. It has the traceback, once per run and "
            "error; please report it. The run continues when the cause is fixed. Its user may cancel it.",
        ),
        "stopped_run": Guide(
            "A run of a pipeline stopped because its jobs failed: `CALLSHEET_PIPELINES__STRIKES` jobs of the first "
            "step in a row (`base_failed`), or as many branches (`branches_failed`). It spends nothing until its user "
            "resumes it. The alert ends when the run is resumed or canceled, or after 24 hours. At most the newest 20 "
            "such runs of a pool have an alert.",
            "Open the failed jobs of the run under Operate, Jobs: the alert has the link. If the workflow or the "
            "provider causes the failures, correct it, and ask the user to resume the run. If the input of the user "
            "causes them, the reason on the page of the run says so to the user.",
            "how-to/run-a-pipeline.md#when-something-fails",
        ),
        "unapproved_workers": Guide(
            "Workers registered with the shared secret and get no jobs until an operator approves them.",
            "Approve or revoke them under Operate, Workers, or with `callsheet workers approve ID` and "
            "`callsheet workers revoke ID`. Workers with a registration token need no approval.",
            "how-to/run-a-fleet.md#the-shared-secret",
        ),
        "unverified_workers": Guide(
            "Instances registered while AWS was not reachable to verify them.",
            "They are verified every minute and revoked if they are not yours; the page Workers under Operate marks "
            "them. Look for `asg.unreachable` in the log. To refuse such workers, set "
            "`CALLSHEET_FLEET__ASG_FAIL_OPEN=false`.",
            "how-to/run-a-fleet.md",
        ),
        "scaling_driver_failing": Guide(
            "The driver of a scaled fleet failed three times in a row. No worker of the fleet is started or ended.",
            "Do what the error says: it may be credentials, a missing group or program, or a quota of the cloud. The "
            "driver is called again every 5 seconds.",
            "how-to/scale-workers.md",
        ),
        "fleet_at_maximum": Guide(
            "A scaled fleet has had its maximum of workers for five minutes or more, and its queue has grown since.",
            "Raise the maximum: under Operate, Fleets, open the fleet and choose Change scaling. The command is "
            "`callsheet fleets scale FLEET --max NUMBER`. Or let the jobs wait.",
            "how-to/scale-workers.md",
        ),
        "fleet_cannot_run": Guide(
            "Jobs wait for a scaled fleet without workers. Its last workers lacked what the jobs require, so no worker "
            "is started.",
            "Install what the message names in the image of the workers. Then, under Operate, Fleets, open the fleet, "
            "choose Change scaling and save the rules again. The command is `callsheet fleets scale FLEET --retry`.",
            "how-to/scale-workers.md#jobs-that-the-workers-cannot-run",
        ),
        "scaling_paused": Guide(
            "This database may be a copy of the one in which the fleet was set up, so the autoscaler does not change "
            "its workers.",
            "On the production: `callsheet db adopt`. On a copy with its own workers: check that the driver's options "
            "do not name the production's group: under Operate, Fleets, open the fleet and choose Change scaling. Save "
            "the rules to confirm them. The command is `callsheet fleets scale FLEET --confirm`.",
            "how-to/restore-and-copy.md",
        ),
        "paused_limit": Guide(
            "A concurrency limit is 0, so its jobs wait.",
            "Raise the limit under Operate, Providers when the jobs should run again. Otherwise they fail at their "
            "deadline and are refunded.",
        ),
        "provider_paused": Guide(
            "A provider did not respond, or returned 429 or 5xx, `CALLSHEET_WEBHOOKS__BREAKER_FAILURES` times in a "
            "row, each time for another job. If only the jobs of one tenant failed, the pause is for this tenant. "
            "After the pause one job tries the provider; if it fails, the next pause is twice as long. The provider's "
            "jobs stay in the queue.",
            "Look at the provider's status page and at the last error under Operate, Providers. End the pause there "
            "when the provider works again.",
        ),
        "mails_not_sent": Guide(
            "The mail server did not accept invitations or password resets within ten minutes, or they failed for good "
            "in the last 24 hours: the recipient was refused, or twelve attempts in six hours failed.",
            "Open Operate, Users, Unsent e-mails: it has the error of each e-mail. Correct the settings of mail or the "
            "server: late e-mails are then sent. Send an e-mail that failed for good again there. If the recipient is "
            "wrong, invite again, or hand over a link (the user's page, Create password link).",
        ),
        "alerts_not_sent": Guide(
            "Messages about alerts were tried three times or more in the last 24 hours and were not accepted by the "
            "webhook or the mail server.",
            "Do what the error says. Correct `CALLSHEET_ALERTS__*` or `CALLSHEET_MAIL__*`, then choose Send a test "
            "alert under Operate, Health, or run `callsheet alerts --send-test`.",
            "how-to/operate.md#send-alerts-to-people",
        ),
        "storage_not_owned": Guide(
            "The bucket or the directory of local files belongs to another installation, which its object "
            "`callsheet/installation.json` names. This installation is a copy, or has the wrong bucket. Nothing is "
            "deleted there; everything else works.",
            "Set the bucket of this installation. If the files are its own, run `callsheet db adopt --storage`. "
            "Deletions that were requested meanwhile happen then.",
            "how-to/restore-and-copy.md#make-a-copy-for-staging",
        ),
        "storage_failing": Guide(
            "Three or more calls of the storage, local files or S3, failed within five minutes on a control plane. It "
            "is critical if the last three reads, or writes, failed, or more than half of them: users then cannot open "
            "or upload files. Workers keep their results and try again. The alert ends when calls succeed again.",
            "Do what the error in the message says: credentials, bucket, network, rights of the directory, or a full "
            "disk. `callsheet doctor` writes, reads and deletes an object. The counter `callsheet_storage_calls_total` "
            "shows when the failures started. Nothing needs a restart.",
            "how-to/operate.md#when-the-storage-fails-or-is-slow",
        ),
        "slow_storage": Guide(
            "More than half of ten or more calls of the storage within five minutes took longer than "
            "`CALLSHEET_STORAGE__SLOW_SECONDS` on a control plane. Transfers of large objects do not count.",
            "Look at the load of the disk, or at the status of the S3 service and the network to it. Workers and "
            "browsers use the same storage, so jobs and pages are slow, too.",
            "how-to/operate.md#when-the-storage-fails-or-is-slow",
        ),
        "low_disk": Guide(
            "A disk of a control plane has less free space than `CALLSHEET_DISK__WARNING_BYTES`. It is critical below "
            "`CALLSHEET_DISK__RESERVE_BYTES` if jobs need the disk: then new uploads and new jobs are refused with "
            "507, and runs of pipelines wait. Accepted jobs go on and may use the reserve.",
            "Make room or enlarge the disk. Set `CALLSHEET_MEDIA__RETENTION_DAYS` and "
            "`CALLSHEET_PIPELINES__RETENTION_DAYS` to delete what is old, or keep objects in S3. Requests are "
            "accepted again within seconds, without a restart.",
            "how-to/operate.md#when-a-disk-fills-up",
        ),
        "low_worker_disk": Guide(
            "A live worker reported less free space on its disk than `CALLSHEET_DISK__RESERVE_BYTES`. It reports the "
            "disk of its data directory twice a minute.",
            "Delete old inputs and outputs of its engine, or lower `CALLSHEET_WORKER__CACHE_BYTES`. Drain the worker "
            "under Operate, Workers until there is room.",
            "how-to/run-a-fleet.md",
        ),
        "pool_unavailable": Guide(
            "A control plane cannot use a pool: the database is not reachable, not migrated, does not grant what is "
            "needed, or belongs to another central. Its tenants get 503 and its jobs wait; everything else works.",
            "Do what the message says. The pool is opened within seconds, without a restart.",
            "how-to/restore-and-copy.md#why-a-restored-database-is-refused",
        ),
        "standby_gone": Guide(
            "A standby of a database is gone: too few synchronous standbys are connected and every write waits "
            "(critical), fewer are connected than within the last day for longer than "
            "`CALLSHEET_DATABASE__STANDBY_LAG_SECONDS`, or a replication slot has no standby. While every write waits, "
            "no message about the alert can be written: create an alert for `callsheet_database_writes_wait`, too.",
            "Start the standby, or do what the message says.",
            "how-to/run-with-your-own-postgresql.md#standbys",
        ),
        "standby_behind": Guide(
            "A standby of a database is further behind than `CALLSHEET_DATABASE__STANDBY_LAG_SECONDS`. A failover "
            "would take as long, and without synchronous replication it may lose the changes of this time.",
            "Look at the network and the disk of the standby, and for a query on it that holds up the replay.",
            "how-to/run-with-your-own-postgresql.md#standbys",
        ),
        "failing_loop": Guide(
            "A background loop of a control plane has failed three times in a row. Its work waits; nothing is lost.",
            "Read `loop.tick_failed` or `database.unreachable` in the log of that process. The cause is mostly a "
            "database or a storage that is not reachable.",
            "how-to/operate.md#what-runs-in-the-background",
        ),
        "endpoint_disabled": Guide(
            "A webhook endpoint accepted no request for `CALLSHEET_DELIVERIES__RETRY_HOURS`, returned 410, or too many "
            "events wait for it, and was disabled. Its user got a mail, if mail is configured. The alert ends after a "
            "week.",
            "Ask its user to correct the server behind it, to enable the endpoint, and to replay what is missing.",
            "how-to/receive-webhooks.md#when-an-endpoint-fails",
        ),
        "reconciled": Guide(
            "The central database and a pool disagreed about a job, and the reconciler repaired it.",
            "Find the cause: one of the databases may have been restored alone, or rows were changed by hand. "
            "`reconciler.healed` in the log names each job. The count starts at 0 with the process.",
        ),
    }
)
