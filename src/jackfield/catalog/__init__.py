"""The catalog: merged tools with public names; visibility, policy, search, pins and preferences.

The listings of all sources become one immutable `Snapshot`; a `View` is what one principal sees, lists and searches;
`policy.py` decides whether a call may be made. `pinning`, `preferences` and `stored_tools` keep what is stored of it.
"""
