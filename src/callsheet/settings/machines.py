"""The sections of what runs beside a control plane: engines, workers and the commands of people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, field_validator

from callsheet.settings.values import Names
from callsheet.toolbox.sections import Section, WebAddress, WebAddresses


class EngineSettings(Section):
    url: WebAddress = Field("http://127.0.0.1:8188", description="Address of the ComfyUI engine on this machine.")
    urls: WebAddresses = Field(
        (),
        description="Addresses of several engines that one worker drives, comma separated. Each gets "
        "worker.max_concurrency jobs at once. Default: engine.url alone.",
    )
    directory: Path | None = Field(
        None,
        description="The engine's own directory, the one with input and output in it, where it is on this machine: "
        "then what a job left there is removed after it. Default: nothing is. With several engines of engine.urls: the "
        "one that all of them share.",
    )
    asset_days: int = Field(
        7,
        ge=1,
        le=36_500,
        description="How long an asset of the catalog stays in the engine's input after the last job that used it, in "
        "days; it is uploaded again when it is needed again. Needs engine.directory: without it nothing is removed.",
    )
    stall_seconds: float = Field(
        600.0,
        ge=1,
        le=86_400,
        description="Longest time a single node of a job may compute without a word, in seconds: no progress, no "
        "change in the queue, none in the GPU's memory. Then the engine is taken for stuck and gets no further job "
        "until it has moved on or was restarted.",
    )
    idle_seconds: float = Field(
        120.0,
        ge=1,
        le=86_400,
        description="The same for an engine that has a job and runs none of its nodes although nothing else runs, in "
        "seconds: before the first node, or between two. In an engine that works this takes moments.",
    )
    queue_seconds: float = Field(
        900.0,
        ge=1,
        le=86_400,
        description="Longest time a job may wait in the engine's own queue behind runs of others, in seconds. Then it "
        "goes back without counting as an attempt, and the worker takes no job until those runs are done. The run "
        "limit of a workflow counts from the moment the engine begins.",
    )
    poll_seconds: float = Field(
        2.0,
        ge=0.1,
        le=60,
        description="How often the engine is asked about a run that its socket says nothing of, in seconds. "
        "Also: COMFYUI_POLL_INTERVAL.",
    )
    timeout_seconds: float = Field(
        60.0,
        ge=1,
        le=3600,
        description="Longest time the engine may take to answer a call, or to go on with an answer it has begun, in "
        "seconds. A run may take longer. Also: COMFYUI_TIMEOUT.",
    )
    max_retries: int = Field(
        3,
        ge=0,
        le=20,
        description="How many more calls are made to upload or fetch a file after the connection to the engine "
        "failed. Also: COMFYUI_MAX_RETRIES.",
    )
    absent_seconds: float = Field(
        120.0,
        ge=1,
        le=3600,
        description="How long an engine may be unreachable before its job is put back, in seconds.",
    )
    previews: Literal["auto", "latent2rgb", "taesd", "none"] = Field(
        "auto",
        description="How samplers draw the pictures that people see while a job runs. ComfyUI draws none unless it is "
        "asked to: auto takes taesd where its models are there and latent2rgb otherwise; none saves the engine the "
        "work. A workflow whose extra_data has a preview_method keeps its own.",
    )

    comfyui: Path | None = Field(
        None,
        description="Directory of a ComfyUI (the one with main.py in it) that the worker starts and supervises itself. "
        "Default: the worker starts none and uses engine.url or engine.urls.",
    )
    count: int | None = Field(
        None,
        ge=1,
        le=64,
        description="How many engines the worker starts from engine.comfyui. They are spread over the GPUs. Default: "
        "one for each GPU.",
    )
    port: int = Field(
        8188,
        ge=1,
        le=65_535,
        description="First port of the engines that the worker starts. Ports that are in use are left out.",
    )
    gpus: Names = Field(
        (),
        description="GPUs of the engines that the worker starts, comma separated, as CUDA_VISIBLE_DEVICES has them: "
        "0,1 or GPU-… Default: those of CUDA_VISIBLE_DEVICES, or all of NVIDIA's.",
    )
    python: Path | None = Field(
        None,
        description="Python that ComfyUI is started with. Default: that of .venv or venv in its directory, or the "
        "worker's own.",
    )
    arguments: str = Field(
        "",
        description="Further arguments of ComfyUI, as in a shell, for example --fast --max-upload-size 5000.",
    )
    memory_bytes: int | None = Field(
        None,
        ge=1_000_000,
        description="Most main memory that an engine the worker started may use with its child processes, in bytes. "
        "Beyond that it gets no further job and is restarted when its jobs are over. Default: no limit.",
    )
    start_seconds: float = Field(
        600.0,
        ge=1,
        le=86_400,
        description="How long an engine that the worker started may take until it answers, in seconds. Then it is "
        "started again.",
    )
    log_bytes: int = Field(
        20_000_000,
        ge=10_000,
        description="Most bytes that are kept of what each engine prints that the worker started.",
    )
    warm_up: Path | None = Field(
        None,
        description="File with a graph in ComfyUI's API format that each engine runs before its first job, so that "
        "models are loaded. When it fails, the worker logs why, and the engine takes jobs all the same. "
        "Default: none.",
    )


class WorkerSettings(Section):
    """What `callsheet worker` needs. Several have a second, shorter variable (see `SHORT_NAMES`)."""

    api_url: WebAddress | None = Field(
        None, description="Address of the control plane. Default: that of server.public_url. Also: API_BASE_URL."
    )
    id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}$",
        description="The worker's own name, the same after a restart. Default: the instance's id on a machine of EC2, "
        "otherwise the host's name. Also: WORKER_ID.",
    )
    secret: SecretStr | None = Field(
        None,
        description="What it registers with: a registration token of its fleet (`callsheet fleets tokens create` on "
        "the control plane), or the shared secret. Also: FLEET_SECRET.",
    )
    fleet: str | None = Field(
        None,
        description="Slug of the fleet it belongs to. A registration token says it already. Also: FLEET_SLUG.",
    )
    stage: str | None = Field(
        None,
        description="Stage of that fleet, or of the jobs it takes without a fleet. Default: that of the registration "
        "token, or production. Also: FLEET_STAGE.",
    )
    workflows: Names = Field(
        (),
        description="Or the workflows it serves without a fleet, comma separated; with a registration token, only "
        "these of its fleet.",
    )
    max_concurrency: int = Field(
        1, ge=1, le=10_000, description="Jobs that each of its engines gets at once. Also: MAX_CONCURRENCY."
    )
    task_concurrency: int = Field(10, ge=1, le=1000, description="Tasks that `callsheet worker --tasks` runs at once.")
    queues: Names = Field(("default",), description="Queues whose tasks it takes, comma separated.")
    heartbeat_seconds: float = Field(
        30.0,
        ge=0.1,
        le=300,
        description="Longest time between two heartbeats of a job, in seconds; a third of the lease where that is "
        "shorter. Also: HEARTBEAT_INTERVAL_SECONDS.",
    )
    prefetch: bool = Field(
        True,
        description="Whether it takes one job more for each that it runs at once, to fetch its files while the engine "
        "works.",
    )
    model_hashes: Path | None = Field(
        None,
        description="File with the SHA-256 of the models, as `sha256sum` writes it, for workflows that require a model "
        "by its hash. The agent never hashes models itself. Default: no hashes are reported.",
    )
    capabilities: dict[str, Any] = Field(
        default_factory=dict,
        description='What admins should know of the machine, as JSON: {"gpu": "RTX 4090"}. Also: CAPABILITIES.',
    )
    capacity_type: Literal["spot", "on-demand"] | None = Field(
        None, description="How the machine is paid for. Default: not said."
    )
    instance_type: str | None = Field(None, description="Kind of machine. Default: what EC2 says, if it is one.")
    cloud_api_key: SecretStr | None = Field(
        None,
        description="Key of Comfy Cloud: then jobs of the provider `cloud` are run there, and no engine is needed. "
        "Also: COMFY_CLOUD_API_KEY.",
    )
    cloud_url: WebAddress = Field("https://cloud.comfy.org", description="Address of Comfy Cloud.")
    cache_bytes: int = Field(
        10_737_418_240, ge=0, description="Most bytes of downloaded files it keeps for later jobs; 0 keeps none."
    )
    stop_seconds: float = Field(
        20.0,
        ge=0,
        le=86_400,
        description="How long running jobs may finish after a stop, in seconds; then they go back to the queue.",
    )
    when_drained: Literal["wait", "exit"] = Field(
        "wait",
        description="What a drained worker does when its jobs are done: stay registered and wait for the end of the "
        "drain, or exit with code 83, after which the systemd units in deploy/ do not start it again.",
    )
    asg_name: str | None = Field(
        None,
        description="Autoscaling group that must not end this machine while a job runs. Also: ASG_NAME.",
    )
    asg_region: str | None = Field(None, description="Its region. Default: that of the AWS chain.")
    asg_endpoint_url: WebAddress | None = Field(None, description="Address to ask instead of Amazon's.")
    asg_lifecycle_hook: str | None = Field(
        None,
        description="Termination lifecycle hook of that group, which the worker completes when it has left. "
        "Default: none.",
    )
    metadata_url: WebAddress | None = Field(
        "http://169.254.169.254",
        description="Where EC2 announces that it takes the machine away; looked at where it answers.",
    )
    metadata_seconds: float = Field(5.0, gt=0, le=60, description="How often that is looked at, in seconds.")


class ClientSettings(Section):
    """What `callsheet submit` and `callsheet watch` need."""

    url: WebAddress | None = Field(
        None, description="Address of the control plane that jobs are sent to. Default: that of server.public_url."
    )
    api_key: SecretStr | None = Field(
        None,
        description="Whose jobs they are; `callsheet keys create` makes one. Default: the demo's, on its own machine.",
    )

    @field_validator("api_key")
    @classmethod
    def _api_key_can_be_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not re.fullmatch(r"[!-~]+", value.get_secret_value()):
            raise ValueError("must be letters, digits and signs without spaces")
        return value


class LightboxSettings(Section):
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on. There is no login: keep it local.")
    port: int = Field(8188, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    allowed_hosts: Names = Field(
        (),
        description="Names with a dot that it is reached by, comma separated, like render.lan. Other requests are "
        "refused. Default: lightbox.host and localhost; where it listens beyond loopback, also IP addresses and names "
        "without a dot.",
    )
    directory: Path | None = Field(
        None, description="Where input, output and temp are. Default: `lightbox` in the data directory."
    )
    max_upload_megabytes: int = Field(100, ge=1, le=100_000, description="Largest upload and prompt, in megabytes.")
    as_cloud: bool = Field(False, description="Answer as Comfy Cloud does instead of as ComfyUI.")
    cloud_api_key: SecretStr = Field(
        SecretStr("lightbox"),
        description="The key that is asked for when answering as Comfy Cloud. Default: `lightbox`.",
    )
    probes: bool = Field(False, description="For tests: offer nodes that sleep, fail and block on purpose.")
