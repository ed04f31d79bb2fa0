"""Files of records that ranks write together: a common part, records with places for atoms, whole records."""
