"""The registry of all media providers and actors: built-in ones have one file and one line each, others an entry
point.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

from callsheet.providers.actor import OWN, Actor
from callsheet.providers.ads.actors import CopyActor, ScrapeActor, SpeechActor, StaticAdActor, VideoActor
from callsheet.providers.comfy import media_tasks as comfyui
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.context import BuiltInContext, Clients, PluginContext
from callsheet.providers.http import provider as http
from callsheet.providers.lightbox import provider as lightbox
from callsheet.providers.media import Finish, MediaProvider
from callsheet.providers.media_actor import MediaActor
from callsheet.providers.replicate import provider as replicate
from callsheet.toolbox.errors import OperatorError
from callsheet.toolbox.http.addresses import Network
from callsheet.wire.tasks import ALIASES

PROVIDER_GROUP: Final = "callsheet.providers"
ACTOR_GROUP: Final = "callsheet.actors"
# Agents beside engines lease jobs of these providers: another provider with such a name would lose its tasks to them.
ENGINES: Final = frozenset({OWN, "cloud"})
COMMON_NEEDS: Final = (
    "name",
    "finish",
    "actions",
    "paid",
    "run_limit_seconds",
    "problems",
    "concurrency",
    "preview_info",
    "close",
)
NEEDS_BY_FINISH: Final[Mapping[Finish, tuple[str, ...]]] = {
    Finish.SYNC: ("generate",),
    Finish.WEBHOOK: ("callback_seconds", "submit", "find", "get", "cancel", "read_callback"),
    Finish.WORKER: ("effect",),
}
NAMES: Final = {PROVIDER_GROUP: r"[a-z][a-z0-9_-]{0,62}", ACTOR_GROUP: r"[a-z][a-z0-9_]{0,62}"}

Named = TypeVar("Named", MediaProvider, Actor)

# Each function creates the providers that the settings configure.
PROVIDERS: tuple[Callable[[BuiltInContext], Iterable[MediaProvider]], ...] = (
    http.configured,
    lightbox.configured,
    comfyui.configured,
    replicate.configured,
)
ACTORS: tuple[Callable[[BuiltInContext], Actor], ...] = (
    MediaActor,
    CopyActor,
    ScrapeActor,
    StaticAdActor,
    VideoActor,
    SpeechActor,
)


class ActorRegistry:
    def __init__(
        self,
        actors: Mapping[str, Actor],
        media: Mapping[str, MediaProvider],
        clients: Clients | None = None,
        blocked: Iterable[MediaProvider] = (),
    ):
        self.actors = actors
        self.media = media
        self._clients = clients or Clients()
        self._blocked = tuple(blocked)

    @property
    def provider_names(self) -> tuple[str, ...]:
        """The providers whose tasks this machine can run. A task worker declares them, and leaves tasks of a provider
        that is set up on another machine only to that machine."""
        media = [name for name, provider in self.media.items() if getattr(provider, "is_set_up", True)]
        others = [name for actor in self.actors.values() for name in getattr(actor, "providers", ())]
        return tuple(dict.fromkeys((OWN, *media, *others)))

    @property
    def services(self) -> tuple[str, ...]:
        """Providers that are called and waited for, and that make no media."""
        return tuple(name for name in self.provider_names if name not in self.media and name not in ENGINES)

    async def close(self) -> None:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self._clients.close)
            for provider in (*self.media.values(), *self._blocked):
                closing.push_async_callback(provider.close)


def open_registry(config: ProvidersConfig, *, allow_networks: Iterable[Network] = ()) -> ActorRegistry:
    """Opens the registry. `allow_networks`: private networks that URLs from users and services may lead to.

    Raises OperatorError if something of another package cannot be used.
    """
    clients = Clients(allow_networks)
    context = BuiltInContext(config, clients)
    media = _by_name(PROVIDER_GROUP, [each for make in PROVIDERS for each in make(context)])
    for entry in _entries(PROVIDER_GROUP):
        provider = _made(entry, PluginContext(_table(config, entry), clients), lacking_of_provider)
        media |= _by_name(PROVIDER_GROUP, [provider], media)
    allowed = {name: provider for name, provider in media.items() if name not in config.blocked}
    actors = _by_name(ACTOR_GROUP, [make(BuiltInContext(config, clients, allowed)) for make in ACTORS])
    for entry in _entries(ACTOR_GROUP):
        actor = _made(entry, PluginContext(_table(config, entry), clients, allowed), lacking_of_actor)
        actors |= _by_name(ACTOR_GROUP, [actor], actors)
    return ActorRegistry(actors, allowed, clients, [media[name] for name in media.keys() - allowed.keys()])


def lacking_of_provider(made: object) -> list[str]:
    """The members that a media provider must have and this one lacks."""
    finish = getattr(made, "finish", None)
    if not isinstance(finish, Finish):
        return [f"finish of {', '.join(NEEDS_BY_FINISH)}"]
    return [name for name in COMMON_NEEDS + NEEDS_BY_FINISH[finish] if not hasattr(made, name)]


def lacking_of_actor(made: object) -> list[str]:
    return [name for name in ("name", "paid", "plan", "run") if not hasattr(made, name)]


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _table(config: ProvidersConfig, entry: EntryPoint) -> Mapping[str, Any]:
    secret = config.plugins.get(entry.name)
    return {} if secret is None else secret.get_secret_value()


def _made(entry: EntryPoint, context: PluginContext, lacking: Callable[[object], list[str]]) -> Any:
    described = f"{entry.name!r} of {entry.group} ({entry.value})"
    try:
        made = entry.load()(context)
    except OperatorError:
        raise
    except (Exception, SystemExit) as error:
        raise OperatorError(f"{described} cannot be used: {type(error).__name__}: {error}.") from error
    if missing := lacking(made):
        raise OperatorError(f"{described} cannot be used: it has no {', '.join(missing)}.")
    return made


def _by_name(group: str, made: Iterable[Named], taken: Mapping[str, Named] | None = None) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for each in made:
        name = each.name
        if not re.fullmatch(NAMES[group], str(name)):
            raise OperatorError(f"{name!r} cannot be a name in {group}: lower-case letters, digits and underscores.")
        if (
            name in found
            or name in (taken or {})
            or (group == ACTOR_GROUP and name in ALIASES)
            or (group == PROVIDER_GROUP and name in ENGINES)
        ):
            raise OperatorError(f"There are two in {group} that are named {name!r}.")
        found[name] = each
    return found
