"""Job files of `kinema run`: several analyses in one pass over one trajectory, as TOML.

The keys come from the options of the command line and from the declarations of analyses; there is no other list.
"""
