"""Job files of `kinema run`: several analyses in one pass over one trajectory, as TOML.

What a key takes comes from the options of the command line and from what analyses declare; there is no other list.
"""
