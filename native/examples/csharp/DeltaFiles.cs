// The files of a Delta table as an IEnumerable, by P/Invoke. Disposed early, the reading ends.

using System;
using System.Collections;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;

public sealed class DeltaFile
{
    public string Path { get; internal set; }
    public string Uri { get; internal set; }
    public long Size { get; internal set; }
    public long? Records { get; internal set; }
    public IReadOnlyDictionary<string, string> PartitionValues { get; internal set; }
    public bool HasDeletionVector { get; internal set; }
}

public sealed class DeltaException : Exception
{
    public int Code { get; }

    public DeltaException(int code, string message) : base($"error {code}: {message}") => Code = code;
}

public sealed class DeltaFiles : IEnumerable<DeltaFile>
{
    private readonly byte[] table;
    private readonly byte[] options;

    public DeltaFiles(string table, string options = null)
    {
        this.table = Encode(table);
        this.options = options == null ? null : Encode(options);
    }

    public IEnumerator<DeltaFile> GetEnumerator()
    {
        Check(Native.delta_scan_open(table, options, out IntPtr scan));
        try
        {
            while (true)
            {
                Check(Native.delta_scan_next(scan, out IntPtr file));
                if (file == IntPtr.Zero)
                {
                    yield break;
                }
                yield return Read(file);
            }
        }
        finally
        {
            Native.delta_scan_close(scan);
        }
    }

    IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

    private static byte[] Encode(string text) => Encoding.UTF8.GetBytes(text + "\0");

    // Right after the call: the message belongs to the thread.
    private static void Check(int code)
    {
        if (code != 0)
        {
            throw new DeltaException(code, Text(Native.delta_last_error()));
        }
    }

    private static string Text(IntPtr place)
    {
        if (place == IntPtr.Zero)
        {
            return null;
        }
        int length = 0;
        while (Marshal.ReadByte(place, length) != 0)
        {
            length++;
        }
        var bytes = new byte[length];
        Marshal.Copy(place, bytes, 0, length);
        return Encoding.UTF8.GetString(bytes);
    }

    private static DeltaFile Read(IntPtr place)
    {
        var file = Marshal.PtrToStructure<NativeFile>(place);
        var values = new Dictionary<string, string>();
        for (int at = 0; at < (int)file.PartitionCount; at++)
        {
            IntPtr pair = IntPtr.Add(file.PartitionValues, 2 * at * IntPtr.Size);
            values[Text(Marshal.ReadIntPtr(pair))] = Text(Marshal.ReadIntPtr(pair, IntPtr.Size));
        }
        return new DeltaFile
        {
            Path = Text(file.Path),
            Uri = Text(file.Uri),
            Size = file.Size,
            Records = file.Records < 0 ? (long?)null : file.Records,
            PartitionValues = values,
            HasDeletionVector = file.DeletionVector != IntPtr.Zero,
        };
    }

    [StructLayout(LayoutKind.Sequential)]
    private struct NativeFile
    {
        public IntPtr Path;
        public IntPtr Uri;
        public long Size;
        public long ModificationTime;
        public long Records;
        public IntPtr PartitionValues;
        public UIntPtr PartitionCount;
        public IntPtr DeletionVector;
    }

    private static class Native
    {
        private const string Library = "delta_sidecar";

        [DllImport(Library)]
        internal static extern int delta_scan_open(byte[] table, byte[] options, out IntPtr scan);

        [DllImport(Library)]
        internal static extern int delta_scan_next(IntPtr scan, out IntPtr file);

        [DllImport(Library)]
        internal static extern void delta_scan_close(IntPtr scan);

        [DllImport(Library)]
        internal static extern IntPtr delta_last_error();
    }
}

public static class Program
{
    // Prints the files of a table as `uri size`, one a line: list TABLE [OPTIONS]
    public static int Main(string[] arguments)
    {
        try
        {
            foreach (DeltaFile file in new DeltaFiles(arguments[0], arguments.Length > 1 ? arguments[1] : null))
            {
                Console.WriteLine($"{file.Uri} {file.Size}");
            }
            return 0;
        }
        catch (DeltaException error)
        {
            Console.Error.WriteLine(error.Message);
            return 1;
        }
    }
}
