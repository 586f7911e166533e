"""The OAuth client protocol for servers behind the gateway, by the MCP authorization specification.

Above: the stored connections. Below: `outgoing`. It stores nothing and knows no source.
"""

from jackfield.connections.oauth.challenges import (
    MAX_STEP_UPS,
    Refusal,
    challenge_of,
    parse_challenges,
    refusal_of,
    stepped_up_scopes,
)
from jackfield.connections.oauth.client import OAuthClient
from jackfield.connections.oauth.errors import (
    CallbackRefused,
    DiscoveryFailed,
    GrantEnded,
    OAuthError,
    OAuthUnavailable,
    RegistrationFailed,
    StepUpRefused,
    TokenRefused,
)
from jackfield.connections.oauth.registration import client_document
from jackfield.connections.oauth.types import (
    AuthMethod,
    AuthorizationRequest,
    AuthorizationServer,
    Challenge,
    Client,
    ProtectedResource,
    Target,
    Tokens,
)

__all__ = [
    "MAX_STEP_UPS",
    "AuthMethod",
    "AuthorizationRequest",
    "AuthorizationServer",
    "CallbackRefused",
    "Challenge",
    "Client",
    "DiscoveryFailed",
    "GrantEnded",
    "OAuthClient",
    "OAuthError",
    "OAuthUnavailable",
    "ProtectedResource",
    "Refusal",
    "RegistrationFailed",
    "StepUpRefused",
    "Target",
    "TokenRefused",
    "Tokens",
    "challenge_of",
    "client_document",
    "parse_challenges",
    "refusal_of",
    "stepped_up_scopes",
]
