"""Adapters of Kinema to other packages, a module for each; `import kinema` imports none of them."""
