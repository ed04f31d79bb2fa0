"""Pictures of reports and of tables of ranks; one style (`style`), a module for each figure."""
