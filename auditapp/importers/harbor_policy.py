"""Which recorded exceptions leave a Harbor reward valid, for jobs written before Harbor recorded it itself."""

from collections.abc import Mapping
from typing import Literal

from judges.records import Json

ErrorClass = Literal["infrastructure", "provider", "verifier", "authentication", "agent", "unknown"]

_INFRASTRUCTURE = """
EnvironmentStartTimeoutError SandboxBuildFailedError AgentSetupTimeoutError HealthcheckError
SandboxLikelyOutOfMemoryError MemoryLimitExceededError SSHAccessError GKEExecStreamClosedError GKEPodNotFoundError
RuntimeRequestError AddTestsDirError DownloadVerifierDirError
"""
_PROVIDER = """
ApiError ApiRateLimitError ApiInternalServerError ApiOverloadedError ApiConnectionClosedError ApiResponseStalledError
UnknownApiError NetworkConnectionError ApiConnectionError ApiUsageLimitError RateLimitError InternalServerError
ServiceUnavailableError APIConnectionError APIError Timeout
"""
_VERIFIER = """
UnsupportedModelParametersError BadRequestError UnprocessableEntityError UnsupportedParamsError
APIResponseValidationError BudgetExceededError VerifierTimeoutError RewardFileNotFoundError RewardFileEmptyError
VerifierOutputParseError
"""
_AUTHENTICATION = """
AgentAuthenticationError ModelNotFoundError ApiProviderResourceNotFoundError AuthenticationError PermissionDeniedError
NotFoundError ServiceOperationsUnsupportedError VercelScopeError DspyImportError MissingExtraError RegradeError
CancelledError
"""
_AGENT = """
NonZeroAgentExitCodeError AgentTimeoutError ContextWindowExceededError OutputTokenExceededError
ContextLengthExceededError OutputLengthExceededError AgentSafetyRefusalError ContentPolicyViolationError
"""

ERROR_CLASSES: Mapping[str, ErrorClass] = {
    **dict.fromkeys(_INFRASTRUCTURE.split(), "infrastructure"),
    **dict.fromkeys(_PROVIDER.split(), "provider"),
    **dict.fromkeys(_VERIFIER.split(), "verifier"),
    **dict.fromkeys(_AUTHENTICATION.split(), "authentication"),
    **dict.fromkeys(_AGENT.split(), "agent"),
}


def error_class(exception_type: str) -> ErrorClass:
    """The class of an exception by its name; one the table does not know is "unknown"."""
    return ERROR_CLASSES.get(exception_type.rpartition(".")[2], "unknown")


def leaves_reward_valid(info: Mapping[str, Json]) -> bool:
    """Whether a reward counts beside this `exception_info`; what the producer recorded goes before the table."""
    for key in ("policy_override", "policy"):
        policy = info.get(key)
        if isinstance(policy, dict) and isinstance(policy.get("has_valid_reward"), bool):
            return bool(policy["has_valid_reward"])
    return error_class(str(info.get("exception_type"))) in ("agent", "unknown")
