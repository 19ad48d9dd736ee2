"""Adding up losses: over the words of a document, and over releases."""
