"""H5MD files written anew from others: in another layout, of fewer atoms, in pieces, joined.

It offers nothing to users; `kinema.repacking`, `kinema.splitting` and `kinema.joining` do.
"""
