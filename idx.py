import shoal, ctypes, sys, os
def pss():
    return {l.split()[0]: int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith(('Pss:','Pss_Anon','Private_Dirty','Rss'))}
print('before', pss())
shoal.index('/tmp/h18/links/%s/train'%sys.argv[1],'/tmp/h18/x.cat',include=['*/*.jpeg'])
print('after', pss())
ctypes.CDLL(None).malloc_trim(0)
print('trim', pss())
os.unlink('/tmp/h18/x.cat')
