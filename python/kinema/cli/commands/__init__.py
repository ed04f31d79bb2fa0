"""The commands of `kinema`: one module each, which calls one public function."""
