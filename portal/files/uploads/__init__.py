"""Code that people upload on a page: files, a folder or an archive, read without unpacking."""
