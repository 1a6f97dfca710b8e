"""A code location of a few lines, so that the webserver's guard is tested without the product's own."""
