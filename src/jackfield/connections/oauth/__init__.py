"""The OAuth client protocol for servers behind the gateway, by the MCP authorization specification.

Above: the stored connections. Below: `outgoing`. It stores nothing and knows no source.
"""

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
    "AuthMethod",
    "AuthorizationRequest",
    "AuthorizationServer",
    "CallbackRefused",
    "Challenge",
    "Client",
    "DiscoveryFailed",
    "GrantEnded",
    "OAuthError",
    "OAuthUnavailable",
    "ProtectedResource",
    "RegistrationFailed",
    "StepUpRefused",
    "Target",
    "TokenRefused",
    "Tokens",
]
