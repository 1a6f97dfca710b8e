"""What is talked to. Each outside system is a folder with a reader, a writer that asks for an Authorization, and its errors."""
