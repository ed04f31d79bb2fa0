"""Files of records that ranks write together: what they share, records with places for atoms, whole records."""
