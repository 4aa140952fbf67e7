with open('/dev/shm/batch_0', 'wb') as file:
    try:
        file.write(bytes(8 << 20))
    except OSError as error:
        raise OSError(error.errno, error.strerror, file.name)
