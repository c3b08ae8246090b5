"""Errors that differ only in what differs from job to job have one fingerprint."""

from __future__ import annotations

import re

import pytest

from callsheet.jobs.machine.fingerprints import FINGERPRINT, fingerprint_of, normalized


def fingerprint(message: str, kind: str = "engine_error") -> str:
    return fingerprint_of({"type": kind, "message": message, "details": {"any": 1}, "traceback": "any"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CUDA out of memory. Tried to allocate 2.50 GiB", "CUDA out of memory. Tried to allocate 512.00 GiB"),
        ("No such file: /var/lib/a/b-12.png at node 12", "No such file: /home/joe/input.png at node 3"),
        ("C:\\models\\x.pt is missing", "D:\\other\\y.pt is missing"),
        ("'dreamshaper_8.safetensors' is not in the list", "'sd-xl.safetensors' is not in the list"),
        ("GET http://10.0.0.3:8188/prompt?x=1 was refused", "GET https://gpu.example.com/prompt was refused"),
        ("Host 10.0.0.3:8188 is away", "Host gpu-7.internal:8188 is away"),
        ("Host [2001:db8::1]:80 is away", "Host [2001:db8::17]:8080 is away"),
        ("Job 0197b1c2-1234-7abc-8def-001122334455 is late", "Job 0197b1c2-ffff-7abc-8def-001122334455 is late"),
        ("Prompt tq_0197b1c212347abc8def001122334455 is late", "Prompt tq_0197b1c2ffff7abc8def001122334455 is late"),
        ("Lease 3f9a8b7c6d5e4f3a is gone", "Lease 00aa8b7c6d5e4f3b is gone"),
        ("Seed 12345678 is not allowed", "Seed 7 is not allowed"),
        ("Tried to allocate 1234567890.5 bytes", "Tried to allocate 2.5 bytes"),
        ("The limit is -123456789", "The limit is -1"),
        ("Lease 3f9a8b7c is gone", "Lease 12345678 is gone"),
        ("It ended at 12:03:44 after 1,000 steps", "It ended at 23:59:01 after 17 steps"),
        ("Mail to joe@example.com bounced", "Mail to ann.lee@studio.example bounced"),
        ("Pointer 0x7f00aa is bad", "Pointer 0x12 is bad"),
        ("Two   spaces\nand a line", "two spaces and a LINE"),
    ],
)
def test_the_same_error_of_another_job_has_the_same_fingerprint(one: str, other: str) -> None:
    assert fingerprint(one) == fingerprint(other)
    assert re.match(FINGERPRINT, fingerprint(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CUDA out of memory", "CUDA error: device-side assert triggered"),
        ("Node KSampler failed", "Node VAEDecode failed"),
        ("No such file", "No such model"),
        ("Failed and/or stopped", "Failed"),
    ],
)
def test_another_error_has_another_fingerprint(one: str, other: str) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_the_code_of_the_error_counts() -> None:
    assert fingerprint("It stopped.") != fingerprint("It stopped.", "lease_lost")


def test_names_of_nodes_and_words_stay() -> None:
    kept = "ksampleradvanced model_sampling_discrete and/or video-upscale"
    assert normalized(kept) == kept


def test_an_error_without_a_message_or_with_a_very_long_one_has_a_fingerprint() -> None:
    assert re.match(FINGERPRINT, fingerprint_of({}))
    assert re.match(FINGERPRINT, fingerprint_of({"type": None, "message": None}))
    assert fingerprint("a b " * 5000) == fingerprint("a b " * 6000)


@pytest.mark.parametrize("text", ["/" * 2000, "a." * 1000, "1:" * 1000, "a-1" * 700, "x@" * 1000, "0f" * 1000])
def test_hostile_messages_take_no_longer_than_others(text: str) -> None:
    """A pattern that tries all ways to split such a text would not end."""
    assert len(fingerprint(text)) == 16
