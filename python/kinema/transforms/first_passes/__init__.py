"""First passes over all frames, for transforms that must know these before they change one.

`base` is what they have in common, `kinds` what each sums up; `making` runs them, `kept` keeps what they have found in
the user's cache folder.
"""
