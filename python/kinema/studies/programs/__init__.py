"""Work of the program of one run: an analysis by Kinema or by MDAnalysis, or a task on files."""
