"""Records of text (JSON, CSV) as Arrow columns under a contract: exactly, or with a note on what does not fit.

Nothing here knows Spark: lines go in, Arrow arrays come out, so all of it is tested without a session.
"""
