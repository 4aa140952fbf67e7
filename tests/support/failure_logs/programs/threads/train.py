import threading, time
for n in range(200):
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
