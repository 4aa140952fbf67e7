"""The words of the pages: labels, badges, stored messages and reasons in the reader's language."""
