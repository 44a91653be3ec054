"""Which hosts may be asked, and with which key: the environment decides, never a judge config.

A config that could send a key to any address would give keys away: a key belongs to a host.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import SecretStr

from judges.errors import ConfigError

Json = Any
KEYS_VARIABLE: Final = "ASSAY_PROVIDER_KEYS"
DEFAULT_URLS: Final = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
VENDOR_KEYS: Final = {"https://api.anthropic.com": "ANTHROPIC_API_KEY", "https://api.openai.com": "OPENAI_API_KEY"}
NO_KEY: Final = SecretStr("")
_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_NEAR: Final = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
# Narrow on purpose: what two parsers of addresses could read differently is no address here.
_URL: Final = re.compile(rf"(https?)://({_HOST})(?::([0-9]{{1,5}}))?(/[A-Za-z0-9._~/-]*)?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go. `origin` is scheme, host and port where it is not the default; the key is never shown."""

    url: str
    origin: str
    host: str
    key: SecretStr = NO_KEY

    @property
    def is_vendor(self) -> bool:
        """Whether this is Anthropic's or OpenAI's own service."""
        return self.origin in VENDOR_KEYS


def origin_of(url: str) -> tuple[str, str]:
    """Origin and host of a base URL, in lower case; ConfigError where it is not plainly http(s)://host[:port][/path]."""
    found = _URL.fullmatch(url)
    if found is None:
        raise ConfigError(f"base_url {url!r}: write http(s)://host[:port][/path], without user, query or fragment")
    scheme, host, port = found[1], found[2].lower(), int(found[3] or _PORTS[found[1]])
    if not 0 < port < 65_536:
        raise ConfigError(f"base_url {url!r}: there is no port {port}")
    return f"{scheme}://{host}" + ("" if port == _PORTS[scheme] else f":{port}"), host


def endpoint(url: str, environ: Mapping[str, str]) -> Endpoint:
    """The place a config names, with its key; ConfigError where the environment does not allow it or has no key."""
    origin, host = origin_of(url)
    keys = provider_keys(environ)
    if origin in keys:
        return Endpoint(url, origin, host, keys[origin])
    if is_loopback(host):
        return Endpoint(url, origin, host)
    if origin in VENDOR_KEYS:
        raise ConfigError(f"no key for {host}: set {VENDOR_KEYS[origin]} in the environment")
    raise ConfigError(
        f"{origin} is not among the hosts that may be asked ({', '.join(sorted(keys)) or 'none'}, and this machine): "
        f'add it to {KEYS_VARIABLE}, a file or text such as "{origin.removeprefix("https://")}" = "<key>"'
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_near(host: str) -> bool:
    """Whether a host is this machine or may be one of its network: what stands behind it is not for everybody."""
    try:
        return not ipaddress.ip_address(host.strip("[]")).is_global
    except ValueError:
        return "." not in host or host.endswith(_NEAR) or not host.rpartition(".")[2].isalpha()


def provider_keys(environ: Mapping[str, str]) -> dict[str, SecretStr]:
    """Keys by origin. An empty key in ASSAY_PROVIDER_KEYS allows a host without one; plain hosts mean https."""
    given = {origin: environ.get(variable, "").strip() for origin, variable in VENDOR_KEYS.items()}
    keys = {origin: SecretStr(_usable(key, VENDOR_KEYS[origin])) for origin, key in given.items() if key}
    for name, key in _own(environ.get(KEYS_VARIABLE, "").strip()).items():
        if not isinstance(key, str):
            raise ConfigError(f"{KEYS_VARIABLE}: {name!r} needs a text as key; hosts with dots stand in quotes")
        keys[origin_of(name if "://" in name else f"https://{name}")[0]] = SecretStr(_usable(key.strip(), name))
    return keys


def _usable(key: str, name: str) -> str:
    """A key that can stand in a header; the message never shows it."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"the key of {name} holds characters that no key has: copy it again")
    return key


def _own(given: str) -> Mapping[str, Json]:
    if not given:
        return {}
    text = given
    try:
        if not given.startswith("{") and "=" not in given:
            text = Path(given).expanduser().read_text(encoding="utf-8").strip()
        keys = orjson.loads(text) if text.startswith("{") else tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{KEYS_VARIABLE}: the file cannot be read: {error.strerror}") from None
    except (ValueError, RuntimeError):  # the parser's message would quote a key
        raise ConfigError(f'{KEYS_VARIABLE}: neither TOML ("host" = "key") nor JSON ({{"host": "key"}})') from None
    if not isinstance(keys, dict):
        raise ConfigError(f"{KEYS_VARIABLE}: needs pairs of host and key")
    return keys
