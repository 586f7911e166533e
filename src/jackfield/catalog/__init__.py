"""The catalog: what a key may see, and whether it may call it.

The listings of all sources become one immutable `Snapshot` (names, overrides, schemas checked, manifests encoded
once); a `View` of it is what one key sees, lists, searches and looks tools up in; `policy` says whether a call may
be made. This room may import sources' `base`, settings, errors and model. It never talks to a source, a store or a
network, and it never executes anything: it is told listings and answers questions.
"""
