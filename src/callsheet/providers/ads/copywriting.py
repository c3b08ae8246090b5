"""Writes texts about a product: with a model of an OpenAI-compatible service, or from a template that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from callsheet.providers.actor import OWN
from callsheet.providers.ads.copywriting_config import CopywritingConfig
from callsheet.providers.errors import ProviderError
from callsheet.providers.service_calls import Service
from callsheet.toolbox.http.client import GuardedClient
from callsheet.wire.generation import CopyInput, ProductFields

NAME: Final = "copywriting"
MAX_RESPONSE_LENGTH: Final = 50_000
# Number of characters of a page that the model gets. This is enough to know the subject of the page.
MAX_PAGE_LENGTH: Final = 4_000
WORDS: Final = {"short": 40, "medium": 120, "long": 300}
TOKENS: Final = {"short": 200, "medium": 500, "long": 1200}
TEMPLATE_NOTE: Final = (
    "Filled into a template in English: no language model wrote this. Set providers.copywriting.api_key for one."
)


class Copywriter(Protocol):
    @property
    def provider(self) -> str:
        """The provider of these jobs, to which the circuit breaker applies."""
        ...

    async def write(self, wanted: CopyInput) -> Mapping[str, Any]:
        """The `text`, and its author. Raises ProviderError."""
        ...


class TemplateWriter:
    provider = OWN

    async def write(self, wanted: CopyInput) -> Mapping[str, Any]:
        text = filled_template(wanted)
        return {"text": text, "written_by": "template", "language": "en", "note": TEMPLATE_NOTE}


class ModelWriter:
    provider = NAME

    def __init__(self, config: CopywritingConfig, client: GuardedClient):
        assert config.api_key is not None
        headers = {"Authorization": f"Bearer {config.api_key.get_secret_value()}"}
        self._config = config
        self._service = Service(NAME, config.url, client, headers, config.request_seconds)

    async def write(self, wanted: CopyInput) -> Mapping[str, Any]:
        body = {
            "model": self._config.model,
            "messages": messages_of(wanted),
            "max_tokens": TOKENS[wanted.length],
        }
        response = await self._service.call("POST", "/chat/completions", body)
        text = text_of(response)
        if text is None:
            message = "The service that writes texts returned no text."
            raise ProviderError("provider_answer", message, details={"provider": NAME})
        return {"text": text, "written_by": self._config.model, "language": wanted.language}


def messages_of(wanted: CopyInput) -> list[dict[str, str]]:
    tone = f" Its tone is {wanted.tone}." if wanted.tone else ""
    task = (
        "You write advertising copy. Return the copy alone, as plain text. "
        f"Write in the language {wanted.language}, in a style that is {wanted.style}.{tone} "
        f"Use about {WORDS[wanted.length]} words. Say nothing that the facts do not say."
    )
    return [{"role": "system", "content": task}, {"role": "user", "content": facts_of(wanted.product)}]


def facts_of(product: ProductFields) -> str:
    price = f"{product.price} {product.currency or ''}".strip() if product.price else None
    facts = {
        "Product": product.title,
        "Description": product.description,
        "Price": price,
        "From its page": product.text[:MAX_PAGE_LENGTH],
    }
    return "\n".join(f"{name}: {value}" for name, value in facts.items() if value)


def text_of(response: object) -> str | None:
    """The text of a chat response; None if it has none."""
    try:
        content = response["choices"][0]["message"]["content"]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return None
    if not isinstance(content, str):
        return None
    # JSON allows halves of surrogate pairs and NUL, which cannot be stored.
    text = content[:MAX_RESPONSE_LENGTH].encode("utf-8", "replace").decode().replace("\0", "").strip()
    return text or None


def filled_template(wanted: CopyInput) -> str:
    product = wanted.product
    sentences = [f"Meet {product.title.rstrip('.!?')}."]
    if product.description:
        sentences.append(product.description if wanted.length != "short" else first_sentence(product.description))
    if wanted.length == "long" and product.text and product.text != product.description:
        sentences.append(" ".join(product.text.split()[: WORDS["long"]]))
    if product.price:
        sentences.append(f"Yours for {product.price}{f' {product.currency}' if product.currency else ''}.")
    sentences.append("Have a look today.")
    return "\n\n".join(sentences)


def first_sentence(text: str) -> str:
    for end in (". ", "! ", "? ", "\n"):
        head, found, _ = text.partition(end)
        if found:
            text = head + end.strip()
    return text
