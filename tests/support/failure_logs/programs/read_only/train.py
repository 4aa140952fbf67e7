open('out/model.pt', 'wb').write(b'x')
