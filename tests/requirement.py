"""`@requirement("CON-health")`: says which demands of `requirements.toml` a test shows."""

import pytest

requirement = pytest.mark.requirement
