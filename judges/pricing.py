"""What a call costs: prices of the genai-prices package, after a local table. An unknown price is None, never 0."""

import hashlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judges.budget import TokenUsage
from judges.errors import ConfigError

Json = Any
PRICES_VARIABLE: Final = "ASSAY_PRICES"
_MILLION: Final = Decimal(1_000_000)
_VENDORS: Final = {"api.anthropic.com": "anthropic", "api.openai.com": "openai"}
_RATES: Final = {
    "input": "input_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "output": "output_mtok",
}


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one model at one host. `rates` are US dollars a million tokens, as text, tiers included."""

    source: str
    rates: Mapping[str, Json]
    calculate: Callable[[TokenUsage, int], Decimal]

    def cost(self, usage: TokenUsage, *, long_writes: int = 0) -> Decimal:
        """US dollars for a call; `long_writes` of the cache writes are kept for an hour."""
        return self.calculate(usage, min(long_writes, usage.cache_write))

    def worst(self, input_tokens: int, output_tokens: int, *, long_writes: bool) -> Decimal:
        """The most a call can cost: nothing read from a cache, all of it fresh or written to one."""
        written = TokenUsage(cache_write=input_tokens, output=output_tokens)
        fresh = TokenUsage(fresh=input_tokens, output=output_tokens)
        return max(self.cost(fresh), self.cost(written, long_writes=input_tokens if long_writes else 0))

    def provenance(self) -> Json:
        """Enough to compute a cost again."""
        return {"source": self.source, "rates": dict(self.rates)}


class _Row(BaseModel):
    """One line of the local table: US dollars a million tokens; `model` may be "*"; without `host`, of any host."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    host: str = ""
    input: Decimal = Field(ge=0, allow_inf_nan=False)
    output: Decimal = Field(ge=0, allow_inf_nan=False)
    cache_read: Decimal | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write: Decimal | None = Field(default=None, ge=0, allow_inf_nan=False)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    price: tuple[_Row, ...] = ()


def find_price(*, url: str, host: str, model: str, environ: Mapping[str, str]) -> Price | None:
    """The price of a model at a host, from the table that ASSAY_PRICES names or from genai-prices; None if unknown."""
    path = environ.get(PRICES_VARIABLE, "").strip()
    return (_own(Path(path), host, model) if path else None) or _listed(url, host, model)


def _own(path: Path, host: str, model: str) -> Price | None:
    """The first row that fits; what a row leaves out of the cache costs as much as fresh input."""
    try:
        data = path.expanduser().read_bytes()
        table = _Table.model_validate(tomllib.loads(data.decode(), parse_float=Decimal))
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(f"{PRICES_VARIABLE} {path}: not a table of [[price]] rows: {error}") from error
    for row in table.price:
        if row.model in (model, "*") and row.host in (host, ""):
            read, written = (row.input if rate is None else rate for rate in (row.cache_read, row.cache_write))
            rates = {"input": row.input, "cache_read": read, "cache_write": written, "output": row.output}
            source = f"override {hashlib.sha256(data).hexdigest()[:16]}"
            return Price(source, {name: str(rate) for name, rate in rates.items()}, _flat(rates))
    return None


def _flat(rates: Mapping[str, Decimal]) -> Callable[[TokenUsage, int], Decimal]:
    def calculate(usage: TokenUsage, _long_writes: int) -> Decimal:
        counts = (usage.fresh, usage.cache_read, usage.cache_write, usage.output)
        prices = (rates["input"], rates["cache_read"], rates["cache_write"], rates["output"])
        return sum((count * rate for count, rate in zip(counts, prices, strict=True)), Decimal(0)) / _MILLION

    return calculate


def _listed(url: str, host: str, model: str) -> Price | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415  0.2 s and 37 MB that a judge without a model is spared

    vendor = _VENDORS.get(host)
    place: dict[str, Any] = {"provider_id": vendor} if vendor else {"provider_api_url": url}
    try:
        found = calc_price(Usage(), model, **place).model_price
    except LookupError:
        return None

    def calculate(usage: TokenUsage, long_writes: int) -> Decimal:
        counted = Usage(
            input_tokens=usage.input,  # the total, what was cached included
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            **({"cache_write_1h_tokens": long_writes} if long_writes else {}),
            output_tokens=usage.output,
        )
        return Decimal(found.calc_price(counted)["total_price"])

    rates = {name: _rate(getattr(found, part, None)) for name, part in _RATES.items()}
    return Price(f"genai-prices {version('genai-prices')}", rates, calculate)


def _rate(price: Json) -> Json:
    if price is None or isinstance(price, Decimal):
        return None if price is None else str(price)
    return {"base": str(price.base), "from": {str(tier.start): str(tier.price) for tier in price.tiers}}
