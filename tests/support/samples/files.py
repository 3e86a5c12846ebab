"""Files for tests."""


def write(folder, **files):
    """Write files with these names and contents into the folder, and return it.

    In names, "__" stands for a slash and "_DOT_" for a dot.
    """
    for name, content in files.items():
        path = folder / name.replace("_DOT_", ".").replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
