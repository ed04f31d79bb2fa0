"""Sample archives made: samples of many files into one."""
