"""The catalog: what a key may see, and whether it may call it.

The listings of all sources become one immutable `Snapshot` (names, overrides, schemas checked, manifests encoded
once); a `View` of it is what one key sees, lists, searches and looks tools up in; `policy` says whether a call may
be made. `pinning`, `preferences` and `stored_tools` keep what the store has of it.
"""
