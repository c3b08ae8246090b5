"""Installing through a network that intercepts TLS: uv and npm trust what the machine trusts, or one line says what to
set."""

from __future__ import annotations

import io
import ipaddress
import json
import os
import ssl
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.programs.wheels import ROOT, UV

pytestmark = pytest.mark.thorough

RUN_UV, RUN_NODE = ROOT / "tools" / "run-uv", ROOT / "tools" / "run-node"
WHEEL = "parcel-1.0-py3-none-any.whl"
HINT = "This network's certificate is not trusted. Name the file that has it: export SSL_CERT_FILE=/path/to/ca.pem"


def certified(name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey) -> bytes:
    """In PEM. Who signs for itself may sign for others."""
    now, is_authority = datetime.now(UTC), name == issuer
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The certificate that the network wants every client to trust; beside it the certificate and key of its server."""
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "authority.pem").write_bytes(certified("The network", ours, "The network", ours))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    shown = certified("A package index", theirs, "The network", ours)
    (tmp_path / "server.pem").write_bytes(shown + theirs.private_bytes(*plain))
    return tmp_path / "authority.pem"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index(authority: Path, tmp_path: Path) -> Iterator[str]:
    """An index with one package for Python and a registry with one for npm, behind the network's certificate."""
    folder = tmp_path / "index" / "parcel"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(f'<a href="{WHEEL}">{WHEEL}</a>')
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("parcel.py", "")
        wheel.writestr("parcel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: parcel\nVersion: 1.0\n")
        wheel.writestr("parcel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("parcel-1.0.dist-info/RECORD", "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "index")))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.with_name("server.pem"))
    # The handshake happens in the thread of a request: a client that disconnects during it does not stop other clients.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"https://127.0.0.1:{server.server_port}"
    write_registry(tmp_path / "index" / "npm", f"{url}/npm")
    yield url
    server.shutdown()
    server.server_close()
    thread.join()


def write_registry(folder: Path, url: str) -> None:
    folder.mkdir()
    package = {"name": "crate", "version": "1.0.0"}
    with tarfile.open(folder / "crate-1.0.0.tgz", "w:gz") as archive:
        content = json.dumps(package).encode()
        member = tarfile.TarInfo("package/package.json")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    version = {**package, "dist": {"tarball": f"{url}/crate-1.0.0.tgz"}}
    document = {"name": "crate", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (folder / "crate").write_text(json.dumps(document))


def install(directory: Path, *arguments: str, uv: Path = UV, **variables: str) -> subprocess.CompletedProcess[str]:
    """As the Makefile does, in an environment that has no more than the variables."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "UV_NO_CACHE": "1", **variables}
    target = ("--python", sys.executable, "--target", str(directory / "installed"))
    command = ["sh", str(RUN_UV), str(uv), "pip", "install", "--quiet", *target, *arguments, "parcel"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=directory)


def test_an_unknown_certificate_is_reported_in_one_line_with_the_setting(index: str, tmp_path: Path) -> None:
    refused = install(tmp_path, "--default-index", index)
    assert refused.returncode != 0
    assert refused.stderr.splitlines()[-1] == HINT


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "PIP_CERT"])
def test_a_certificate_that_was_named_for_uv_or_for_pip_is_trusted(
    index: str, authority: Path, tmp_path: Path, name: str
) -> None:
    installed = install(tmp_path, "--default-index", index, **{name: str(authority)})
    assert (installed.returncode, installed.stderr) == (0, "")
    assert (tmp_path / "installed" / "parcel.py").exists()


def test_packages_come_from_the_index_that_pip_has(index: str, authority: Path, tmp_path: Path) -> None:
    installed = install(tmp_path, PIP_INDEX_URL=index, SSL_CERT_FILE=str(authority))
    assert (installed.returncode, installed.stderr) == (0, "")
    assert (tmp_path / "installed" / "parcel.py").exists()


@pytest.mark.parametrize(("given", "reaches"), [({}, "true"), ({"UV_SYSTEM_CERTS": "false"}, "false")])
def test_uv_trusts_what_the_system_trusts(tmp_path: Path, given: dict[str, str], reaches: str) -> None:
    # A test must not change the system's own certificates.
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "$UV_SYSTEM_CERTS"\n')
    uv.chmod(0o755)
    assert install(tmp_path, uv=uv, **given).stdout == f"{reaches}\n"


def install_with_npm(directory: Path, index: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As the Makefile does, in an environment that has no more than the variables."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), **variables}
    options = (f"--registry={index}/npm/", "--prefix", str(directory), "--fetch-retries=0", "--no-audit", "--no-fund")
    command = ["sh", str(RUN_NODE), sys.prefix, "npm", "install", *options, "crate"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=directory)


def test_npm_reports_an_unknown_certificate_with_the_setting(index: str, tmp_path: Path) -> None:
    refused = install_with_npm(tmp_path, index)
    assert refused.returncode != 0
    assert refused.stderr.splitlines()[-1] == HINT


def test_npm_failures_of_another_kind_have_no_hint(index: str, authority: Path, tmp_path: Path) -> None:
    refused = install_with_npm(tmp_path, f"{index}/nothing", SSL_CERT_FILE=str(authority))
    assert refused.returncode != 0
    assert HINT not in refused.stderr


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "PIP_CERT", "NODE_EXTRA_CA_CERTS"])
def test_npm_trusts_a_certificate_that_was_named_for_uv_pip_or_node(
    index: str, authority: Path, tmp_path: Path, name: str
) -> None:
    installed = install_with_npm(tmp_path, index, **{name: str(authority)})
    assert (installed.returncode, installed.stderr) == (0, "")
    assert (tmp_path / "node_modules" / "crate" / "package.json").exists()


@pytest.mark.parametrize("program", ["uv", "npm"])
def test_a_certificate_in_the_settings_of_pip_is_trusted(
    index: str, authority: Path, tmp_path: Path, program: str
) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\ncert = {authority}\n")
    given = {"PIP_CONFIG_FILE": str(settings)}
    if program == "uv":
        installed = install(tmp_path, "--default-index", index, **given)
    else:
        installed = install_with_npm(tmp_path, index, **given)
    assert (installed.returncode, installed.stderr) == (0, "")
