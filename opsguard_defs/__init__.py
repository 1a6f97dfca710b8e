"""What is loaded: definitions, settings, command line, sandbox."""
