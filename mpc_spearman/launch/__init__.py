"""From a plan to running roles: all on this machine (`local`), or one of them on its own host (`join`)."""
