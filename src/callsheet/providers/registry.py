"""Every provider of media and every actor there is: one file and one line each, or another package's entry point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeVar

from callsheet.providers import comfyui_queue, http_provider, lightbox_provider, replicate
from callsheet.providers.actor import Actor
from callsheet.providers.config import ProvidersConfig
from callsheet.providers.context import Clients, Context, PluginContext
from callsheet.providers.media import MediaProvider
from callsheet.providers.media_actor import MediaActor
from callsheet.toolbox.addresses import Network
from callsheet.toolbox.errors import OperatorError

PROVIDER_GROUP: Final = "callsheet.providers"
ACTOR_GROUP: Final = "callsheet.actors"
NAMES: Final = {PROVIDER_GROUP: r"[a-z][a-z0-9_-]{0,62}", ACTOR_GROUP: r"[a-z][a-z0-9_]{0,62}"}

Named = TypeVar("Named", MediaProvider, Actor)

# Each makes the providers that the settings ask for.
PROVIDERS: tuple[Callable[[Context], Iterable[MediaProvider]], ...] = (
    http_provider.configured,
    lightbox_provider.configured,
    comfyui_queue.configured,
    replicate.configured,
)
ACTORS: tuple[Callable[[Context], Actor], ...] = (MediaActor,)


class Registry:
    def __init__(self, actors: Mapping[str, Actor], media: Mapping[str, MediaProvider], clients: Clients | None = None):
        self.actors = actors
        self.media = media
        self._clients = clients or Clients()

    async def close(self) -> None:
        for provider in self.media.values():
            await provider.close()
        await self._clients.close()


def open_registry(config: ProvidersConfig, *, allow_networks: Iterable[Network] = ()) -> Registry:
    """`allow_networks`: private networks that addresses supplied by users and services may lead to.

    Raises OperatorError where something of another package cannot be used.
    """
    clients = Clients(allow_networks)
    context = Context(config, clients)
    media = _by_name(PROVIDER_GROUP, [each for make in PROVIDERS for each in make(context)])
    for entry in _entries(PROVIDER_GROUP):
        media |= _by_name(PROVIDER_GROUP, [_made(entry, PluginContext(_table(config, entry), clients))], media)
    media = {name: provider for name, provider in media.items() if name not in config.blocked}
    actors = _by_name(ACTOR_GROUP, [make(Context(config, clients, media)) for make in ACTORS])
    for entry in _entries(ACTOR_GROUP):
        actors |= _by_name(ACTOR_GROUP, [_made(entry, PluginContext(_table(config, entry), clients, media))], actors)
    return Registry(actors, media, clients)


def _entries(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _table(config: ProvidersConfig, entry: EntryPoint) -> Mapping[str, Any]:
    secret = config.plugins.get(entry.name)
    return {} if secret is None else secret.get_secret_value()


def _made(entry: EntryPoint, context: PluginContext) -> Any:
    try:
        return entry.load()(context)
    except OperatorError:
        raise
    except Exception as error:
        raise OperatorError(
            f"{entry.group} {entry.name!r} ({entry.value}) cannot be used: {type(error).__name__}: {error}."
        ) from error


def _by_name(group: str, made: Iterable[Named], taken: Mapping[str, Named] | None = None) -> dict[str, Named]:
    found: dict[str, Named] = {}
    for each in made:
        name = each.name
        if not re.fullmatch(NAMES[group], name):
            raise OperatorError(f"{name!r} cannot be a name of {group}: lower-case letters, digits and underscores.")
        if name in found or name in (taken or {}):
            raise OperatorError(f"There are two {group} named {name!r}.")
        found[name] = each
    return found
