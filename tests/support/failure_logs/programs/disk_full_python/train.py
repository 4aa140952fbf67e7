def save(path):
    with open(path, 'wb') as file:
        file.write(bytes(8 << 20))
save('out/checkpoint-100.pt')
