"""What is kept of files in the user's cache folder, and used as long as the files are what they were."""
