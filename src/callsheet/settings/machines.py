"""The sections of programs beside a control plane: engines, workers and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from callsheet.settings.values import Names
from callsheet.toolbox.sections import Section, WebAddress, WebAddresses


class EngineSettings(Section):
    url: WebAddress = Field("http://127.0.0.1:8188", description="URL of the ComfyUI engine on this machine.")
    urls: WebAddresses = Field(
        (),
        description="URLs of several engines that one worker drives, comma separated. Each engine gets "
        "worker.max_concurrency jobs at once. Default: only engine.url.",
    )
    directory: Path | None = Field(
        None,
        description="Directory of the engine on this machine, which contains input and output. If it is set, the "
        "worker removes the files of a job after the job. Default: nothing is removed. With several "
        "engines in engine.urls: the directory that they share.",
    )
    asset_days: int = Field(
        7,
        ge=1,
        le=36_500,
        description="How long an asset of the catalog stays in the engine's input after the last job that used it, "
        "in days. It is uploaded again when a job needs it. Requires engine.directory: without it "
        "nothing is removed.",
    )
    stall_seconds: float = Field(
        600.0,
        ge=1,
        le=86_400,
        description="Longest time that a single node may compute without a sign of life, in seconds: no progress, no "
        "change in the queue or in the GPU's memory. After that the engine counts as stuck and gets no "
        "further job until it continues or is restarted.",
    )
    idle_seconds: float = Field(
        120.0,
        ge=1,
        le=86_400,
        description="Longest time that an idle engine may have a job without running any of its nodes, in seconds: "
        "before the first node or between two nodes. In a healthy engine this takes moments.",
    )
    queue_seconds: float = Field(
        900.0,
        ge=1,
        le=86_400,
        description="Longest time that a job may wait in the engine's own queue behind other runs, in seconds. After "
        "that the job is requeued, which does not count as an attempt, and the worker takes no job until "
        "those runs are done. The run limit of a workflow counts from the moment that the engine starts "
        "the run.",
    )
    poll_seconds: float = Field(
        2.0,
        ge=0.1,
        le=60,
        description="How often the engine is polled about a run that its socket does not report, in seconds. Also: "
        "COMFYUI_POLL_INTERVAL.",
    )
    timeout_seconds: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Timeout for the engine to respond to a call, or to continue a response, in seconds. A run may "
        "take longer.",
    )
    run_limit_seconds: float | None = Field(
        None,
        ge=1,
        le=604_800,
        description="Longest run of a job on this worker, in seconds, from the moment that the engine starts the run. "
        "A job that takes longer fails with run_limit. Default: only the run limit of the workflow, which also counts "
        "where it is shorter. Also: COMFYUI_TIMEOUT.",
    )
    max_retries: int = Field(
        3,
        ge=0,
        le=20,
        description="Number of retries to upload or fetch a file after the connection to the engine failed. Also: "
        "COMFYUI_MAX_RETRIES.",
    )
    absent_seconds: float = Field(
        120.0,
        ge=1,
        le=3600,
        description="How long an engine may be unreachable before its job is requeued, in seconds.",
    )
    previews: Literal["auto", "latent2rgb", "taesd", "none"] = Field(
        "auto",
        description="How samplers draw the preview images of a running job. ComfyUI draws none by default. auto: "
        "taesd if its models are installed, otherwise latent2rgb. none: no preview images, which saves "
        "the engine work. A workflow whose extra_data has a preview_method keeps its own.",
    )

    comfyui: Path | None = Field(
        None,
        description="Directory of a ComfyUI (it contains main.py) that the worker starts and supervises. Default: "
        "the worker starts none and uses engine.url or engine.urls.",
    )
    count: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Number of engines that the worker starts from engine.comfyui. They are spread over the GPUs. "
        "Default: one for each GPU.",
    )
    port: int = Field(
        8188,
        ge=1,
        le=65_535,
        description="First port of the engines that the worker starts. Ports that are in use are skipped.",
    )
    gpus: Names = Field(
        (),
        description="GPUs of the engines that the worker starts, comma separated, in the form of "
        "CUDA_VISIBLE_DEVICES: 0,1 or GPU-… Default: those of CUDA_VISIBLE_DEVICES, or all NVIDIA GPUs.",
    )
    python: Path | None = Field(
        None,
        description="Python that starts ComfyUI. Default: the Python of .venv or venv in its directory, or the "
        "worker's own.",
    )
    arguments: str = Field(
        "",
        description="Further arguments for ComfyUI, as in a shell, for example --fast --max-upload-size 5000.",
    )
    memory_bytes: int | None = Field(
        None,
        ge=1_000_000,
        description="Largest amount of main memory that an engine that the worker started may use, including its "
        "child processes, in bytes. Above that it gets no further job and is restarted after its jobs. "
        "Default: no limit.",
    )
    start_seconds: float = Field(
        600.0,
        ge=1,
        le=86_400,
        description="How long an engine that the worker started may take until it responds, in seconds. After that "
        "it is restarted.",
    )
    log_bytes: int = Field(
        20_000_000,
        ge=10_000,
        description="Largest number of bytes of output that are kept for each engine that the worker started.",
    )
    warm_up: Path | None = Field(
        None,
        description="File with a graph in ComfyUI's API format that each engine runs before its first job, to load "
        "models. If the graph fails, the worker logs the reason and the engine still takes jobs. "
        "Default: none.",
    )


class WorkerSettings(Section):
    """Settings of `callsheet worker`. Several have a second, shorter variable (see `SHORT_NAMES`)."""

    api_url: WebAddress | None = Field(
        None, description="URL of the control plane. Default: server.public_url. Also: API_BASE_URL."
    )
    id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$",
        description="Id of the worker, the same after a restart. Default: the instance id on EC2, otherwise the host "
        "name. Also: WORKER_ID.",
    )
    secret: SecretStr | None = Field(
        None,
        description="Secret that the worker registers with: a registration token of its fleet (`callsheet fleets "
        "tokens create` on the control plane), or the shared secret. Also: FLEET_SECRET.",
    )
    fleet: str | None = Field(
        None,
        description="Slug of the worker's fleet. Not needed with a registration token. Also: FLEET_SLUG.",
    )
    stage: str | None = Field(
        None,
        description="Stage of the fleet, or of the jobs that a worker without a fleet takes. Default: the stage of "
        "the registration token, or production. Also: FLEET_STAGE.",
    )
    workflows: Names = Field(
        (),
        description="Workflows that a worker without a fleet serves, comma separated. With a registration token: "
        "only these workflows of its fleet.",
    )
    max_concurrency: int = Field(
        1, ge=1, le=10_000, description="Number of jobs that each engine gets at once. Also: MAX_CONCURRENCY."
    )
    task_concurrency: int = Field(
        10, ge=1, le=1000, description="Number of tasks that `callsheet worker --tasks` runs at once."
    )
    queues: Names = Field(("default",), description="Queues whose tasks the worker takes, comma separated.")
    heartbeat_seconds: float = Field(
        30.0,
        ge=0.1,
        le=300,
        description="Longest time between two heartbeats of a job, in seconds. If a third of the lease is shorter, "
        "that applies. Also: HEARTBEAT_INTERVAL_SECONDS.",
    )
    prefetch: bool = Field(
        True,
        description="Whether the worker takes one more job for each job that it runs at once, to fetch its files "
        "while the engine works.",
    )
    model_hashes: Path | None = Field(
        None,
        description="File with the SHA-256 of the models, as `sha256sum` writes it, for workflows that require a model "
        "by its hash. The agent never hashes models itself. Default: no hashes are reported.",
    )
    capabilities: dict[str, Any] = Field(
        default_factory=dict,
        description='Facts about the machine for admins, as JSON: {"gpu": "RTX 4090"}. Also: CAPABILITIES.',
    )
    capacity_type: Literal["spot", "on-demand"] | None = Field(
        None, description="How the machine is paid for. Default: not set."
    )
    instance_type: str | None = Field(None, description="Type of the machine. Default: the instance type on EC2.")
    cloud_api_key: SecretStr | None = Field(
        None,
        description="API key of Comfy Cloud. With it, the worker runs jobs of the provider `cloud` there and needs "
        "no engine. Also: COMFY_CLOUD_API_KEY.",
    )
    cloud_url: WebAddress = Field("https://cloud.comfy.org", description="URL of Comfy Cloud.")
    cache_bytes: int = Field(
        10_737_418_240,
        ge=0,
        description="Largest number of bytes of downloaded files that the worker keeps for later jobs. 0: none.",
    )
    stop_seconds: float = Field(
        20.0,
        ge=0,
        le=86_400,
        description="How long running jobs have to finish after a stop, in seconds. After that they are requeued.",
    )
    when_drained: Literal["wait", "exit"] = Field(
        "wait",
        description="What a drained worker does when its jobs are done: stay registered and wait for the end of the "
        "drain, or exit with code 83, after which the systemd units in deploy/ do not start it again.",
    )
    asg_name: str | None = Field(
        None,
        description="Autoscaling group of this machine. The worker protects the machine from scale-in while a job "
        "runs. Also: ASG_NAME.",
    )
    asg_region: str | None = Field(
        None, description="Region of the autoscaling group. Default: the region of the AWS chain."
    )
    asg_endpoint_url: WebAddress | None = Field(None, description="URL of the autoscaling API. Default: Amazon's.")
    asg_lifecycle_hook: str | None = Field(
        None,
        description="Termination lifecycle hook of that group, which the worker completes when it has left. "
        "Default: none.",
    )
    metadata_url: WebAddress | None = Field(
        "http://169.254.169.254",
        description="URL at which EC2 announces an interruption of the machine.",
    )
    metadata_seconds: float = Field(
        5.0, gt=0, le=60, description="How often the worker checks for an interruption, in seconds."
    )


class ClientSettings(Section):
    """Settings of `callsheet submit` and `callsheet watch`."""

    url: WebAddress | None = Field(
        None, description="URL of the control plane that jobs are sent to. Default: server.public_url."
    )
    api_key: SecretStr | None = Field(
        None,
        description="API key of the user who submits the jobs. Create one with `callsheet keys create`. Default: the "
        "key of the demo, on its own machine.",
    )

    @field_validator("api_key")
    @classmethod
    def _api_key_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("must be letters, digits and signs without spaces")
        return value


class LightboxSettings(Section):
    host: str = Field(
        "127.0.0.1", min_length=1, description="Network address to listen on. Lightbox has no login, so keep it local."
    )
    port: int = Field(8188, ge=0, le=65535, description="Port to listen on. 0: a free port.")
    allowed_hosts: Names = Field(
        (),
        description="Host names with a dot at which Lightbox is reached, comma separated, for example render.lan. "
        "Requests for other host names are refused. Default: lightbox.host and localhost; if it listens "
        "beyond loopback, also IP addresses and names without a dot.",
    )
    directory: Path | None = Field(
        None, description="Directory of input, output and temp. Default: `lightbox` in the data directory."
    )
    max_upload_megabytes: int = Field(100, ge=1, le=100_000, description="Largest upload and prompt, in megabytes.")
    as_cloud: bool = Field(False, description="Whether Lightbox behaves like Comfy Cloud instead of ComfyUI.")
    cloud_api_key: SecretStr = Field(
        SecretStr("lightbox"),
        description="API key that Lightbox requires when it behaves like Comfy Cloud. Default: `lightbox`.",
    )
    probes: bool = Field(False, description="For tests: whether there are nodes that sleep, fail and block on purpose.")
    comfyui_timing: bool = Field(
        False, description="For benchmarks: whether Lightbox responds with the delays that were recorded on a ComfyUI."
    )
