"""Run the roles of a plan: all on this machine (`local`), or one on its own host (`join`)."""
